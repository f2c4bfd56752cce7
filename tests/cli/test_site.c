/* Tests of runner/cli/site*.c: real files and folders, good and broken. */
#include "runner/base/file.h"
#include "runner/base/str.h"
#include "runner/cli/site.h"
#include "tests/tap.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static char dir[] = "/tmp/koboshi-site.XXXXXX";
static char path_buf[4096];

static const char *in_dir(const char *name)
{
    snprintf(path_buf, sizeof path_buf, "%s/%s", dir, name);
    return path_buf;
}

static void put(const char *name, const void *bytes, size_t n)
{
    ok(!file_replace(in_dir(name), bytes, n, 0644, NULL), "write %s", name);
}

/* ---- Token files -------------------------------------------------------- */

/* Two documents of three and two 16-bit tokens: facts of the format. */
static const unsigned char good_bin[] = {1, 0, 2, 0, 0x50, 0xc4, 4, 0, 0x50,
                                         0xc4};
static const unsigned char good_idx[] = {
    'M', 'M', 'I', 'D', 'I', 'D', 'X', 0, 0,          /* magic */
    1, 0, 0, 0, 0, 0, 0, 0,                           /* version */
    8,                                                /* u16 */
    2, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0,   /* counts */
    3, 0, 0, 0, 2, 0, 0, 0,                           /* lengths */
    0, 0, 0, 0, 0, 0, 0, 0, 6, 0, 0, 0, 0, 0, 0, 0,   /* pointers */
    0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0,
    2, 0, 0, 0, 0, 0, 0, 0};                          /* marks */

static void test_tokens(void)
{
    static const struct {
        const char *what;
        size_t at;       /* byte of the index to change */
        int value;       /* -1: cut there */
        size_t bin_n;
        const char *problem;
    } bad[] = {
        {"magic", 0, 'X', 10, "the .idx is not a token file's index"},
        {"version", 9, 2, 10, "the .idx is of a version or number type that "
                              "is not known"},
        {"float", 17, 7, 10, "the .idx is of a version or number type that is "
                             "not known"},
        {"code", 17, 99, 10, "the .idx is of a version or number type that is "
                             "not known"},
        {"count", 18, 9, 10, "the .idx is cut or its counts are wrong"},
        {"huge", 25, 255, 10, "the .idx is cut or its counts are wrong"},
        {"no marks", 26, 0, 10, "the .idx is cut or its counts are wrong"},
        {"cut", 60, -1, 10, "the .idx is cut or its counts are wrong"},
        {"header", 20, -1, 10, "the .idx is not a token file's index"},
        {"bin cut", 9, 1, 8, ".bin and .idx do not belong together: the index "
                             "ends elsewhere"},
        {"mark", 74, 1, 10, ".bin and .idx do not belong together: the index "
                            "ends elsewhere"},
    };
    struct site_file file;
    put("good.bin", good_bin, sizeof good_bin);
    put("good.idx", good_idx, sizeof good_idx);
    site_look_at_tokens(in_dir("good"), &file);
    ok(file.known && file.exists && !*file.problem, "a good pair");
    is_int(file.tokens, 5, "tokens");
    is_int(file.sequences, 2, "sequences");
    is_int(file.documents, 2, "documents");
    is_int(file.dtype_bytes, 2, "bytes a token");
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        unsigned char idx[sizeof good_idx];
        memcpy(idx, good_idx, sizeof idx);
        if (bad[i].value >= 0)
            idx[bad[i].at] = (unsigned char)bad[i].value;
        put("bad.bin", good_bin, bad[i].bin_n);
        put("bad.idx", idx, bad[i].value < 0 ? bad[i].at : sizeof idx);
        site_look_at_tokens(in_dir("bad"), &file);
        is_str(file.problem, bad[i].problem, bad[i].what);
    }
    put("alone.bin", good_bin, sizeof good_bin);
    site_look_at_tokens(in_dir("alone"), &file);
    is_str(file.problem, "its .idx is missing", "a .bin alone");
    site_look_at_tokens(in_dir("nothing"), &file);
    ok(file.known && !file.exists, "none in a folder that is here");
    site_look_at_tokens(in_dir("no/such/folder/x"), &file);
    ok(file.known && !file.exists, "none in a missing folder of one seen");
    site_look_at_tokens("/no-such-mount/corpus", &file);
    ok(!file.known, "a file system that is not here is not seen");
}

/* ---- Run directory ------------------------------------------------------ */

static const char *resume = "auto";

static void look(struct site *site, const char *run_dir, bool submit)
{
    struct conf *conf = plan_conf_create(NULL);
    conf_put(conf, "run.dir", run_dir, "test", NULL);
    conf_put(conf, "checkpoint.resume", resume, "test", NULL);
    site_init(site);
    site->submit = submit;
    site_look(site, conf);
    conf_destroy(conf);
}

static void test_run_dir(void)
{
    static struct site site;
    look(&site, in_dir("new/run"), true);
    ok(site.run_dir_known && site.run_dir_writable, "one to be made");
    ok(site.disk_free_bytes > 0, "its disk has room");
    look(&site, in_dir("good.bin"), true);
    ok(site.run_dir_known && !site.run_dir_writable, "a file is no folder");
    ok(strstr(site.run_dir_problem, "good.bin' is not a folder") != NULL,
       "and said so");
    look(&site, "/no-such-mount/run", true);
    ok(!site.run_dir_known, "not seen at submit");
    look(&site, "/no-such-mount/run", false);
    ok(site.run_dir_known, "but on a node what is missing is missing");
    look(&site, "/proc/run/x", false);
    ok(!site.run_dir_writable || geteuid() == 0, "/proc cannot be written");

    file_make_dirs(in_dir("run/ckpt/step-0000000010.a0001"), 0755, NULL);
    file_make_dirs(in_dir("run/ckpt/step-0000000020.a0001"), 0755, NULL);
    put("run/ckpt/step-0000000010.a0001/manifest.json", "{}", 2);
    look(&site, in_dir("run"), false);
    is_int(site.ckpts_n, 1, "committed checkpoints are counted");
    ok(!site.resume_missing, "and none is asked for");
    resume = "10";
    look(&site, in_dir("run"), false);
    ok(!site.resume_missing, "the one of step 10 is there");
    resume = "20";
    look(&site, in_dir("run"), false);
    ok(site.resume_missing, "that of step 20 was never committed");
    resume = "auto";
}

/* ---- Slurm -------------------------------------------------------------- */

static void test_slurm_conf(void)
{
    static struct site site;
    static const char text[] = "# comment SlurmdTimeout=1\n"
                               "slurmdtimeout=600\nJobRequeue = 0\n"
                               "AuthInfo=socket=/x,cred_expire=5\n"
                               "include more.conf\n"
                               "include slurm.conf\n"; /* itself */
    put("slurm.conf", text, strlen(text));
    put("more.conf", "KillWait=7\n", 11);
    site_init(&site);
    site_read_slurm_conf(&site, in_dir("slurm.conf"));
    is_int(site.slurmd_timeout_s, 600, "SlurmdTimeout, in any case");
    is_int(site.job_requeue, 0, "JobRequeue, with spaces");
    is_int(site.requeue_delay_s, 6, "the requeue delay");
    is_int(site.kill_wait_s, 7, "an included file");
    is_int(site.max_batch_requeue, -1, "what is not there is unknown");
    is_int(site.plugin_required, -1, "no plugstack.conf beside it");
    static const char stack[] = "# required /x/spank_koboshi.so\n"
                                "optional /x/other.so\n"
                                "required /x/spank_koboshi.so bindir=/x\n";
    put("plugstack.conf", stack, strlen(stack));
    site_init(&site);
    site_read_slurm_conf(&site, in_dir("slurm.conf"));
    is_int(site.plugin_required, 1, "a required plugin");
    is_int(site.plugin_missing, 1, "that is not there");
    site_init(&site);
    site_read_slurm_conf(&site, in_dir("no.conf"));
    is_int(site.slurmd_timeout_s, -1, "no file: all unknown");
}

static const char *fake_env(const char *name)
{
    return !strcmp(name, "SLURM_JOB_NUM_NODES")     ? "12"
           : !strcmp(name, "SLURM_NTASKS_PER_NODE") ? "4(x12)"
           : !strcmp(name, "SLURM_GPUS_ON_NODE")    ? "many"
                                                    : NULL;
}

static void test_env(void)
{
    static struct site site;
    site_init(&site);
    site_take_env(&site, fake_env);
    is_int(site.nodes, 12, "nodes of the job");
    is_int(site.ranks_per_node, 4, "tasks a node, in Slurm's short form");
    is_int(site.gpus_per_node, 0, "nonsense is unknown");
    site.nodes = 3;
    site_take_env(&site, fake_env);
    is_int(site.nodes, 3, "what is known stays");
}

int main(void)
{
    char command[64];
    if (!mkdtemp(dir))
        return 1;
    test_tokens();
    test_run_dir();
    test_slurm_conf();
    test_env();
    snprintf(command, sizeof command, "rm -rf %s", dir);
    ok(!system(command), "cleaned");
    return tap_done();
}
