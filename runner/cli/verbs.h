/* verbs - one function a verb of `koboshi`. argv[0] is the verb; the return
 * value is the exit code (enum kb_exit). Errors are printed as
 * `koboshi VERB: message`. The table of verbs is in main_koboshi.c. */
#ifndef KB_CLI_VERBS_H
#define KB_CLI_VERBS_H

int verb_plan(int argc, char **argv);
int verb_health(int argc, char **argv);
int verb_status(int argc, char **argv);
int verb_report(int argc, char **argv);
int verb_data(int argc, char **argv);
int verb_ckpt(int argc, char **argv);
int verb_generate(int argc, char **argv);

#endif
