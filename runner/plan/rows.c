/* rows - the table of the keys of run.yaml. koboshi.yaml(5) lists the same
 * (tests/plan/test_man.c). A fallback "" means that plan decides. */
#include "runner/plan/plan.h"

#define MANY 9e15 /* no upper limit */

#define INT(key, fallback, min, max, unit, also, doc)                          \
    {key, CONF_INT, fallback, min, max, unit, NULL, false, doc, also}
#define REAL(key, fallback, min, max, also, doc)                               \
    {key, CONF_REAL, fallback, min, max, "", NULL, false, doc, also}
#define BOOL(key, fallback, also, doc)                                         \
    {key, CONF_BOOL, fallback, 0, 0, "", NULL, false, doc, also}
#define TEXT(key, fallback, also, doc)                                         \
    {key, CONF_TEXT, fallback, 0, 0, "", NULL, false, doc, also}
#define SECRET(key, doc)                                                       \
    {key, CONF_TEXT, "", 0, 0, "", NULL, true, doc, NULL}
#define PATH(key, fallback, also, doc)                                         \
    {key, CONF_PATH, fallback, 0, 0, "", NULL, false, doc, also}
#define LIST(key, fallback, also, doc)                                         \
    {key, CONF_LIST, fallback, 0, 0, "", NULL, false, doc, also}
#define CHOICE(key, fallback, choices, also, doc)                              \
    {key, CONF_CHOICE, fallback, 0, 0, "", choices, false, doc, also}
#define TIME(key, fallback, min, max, doc)                                     \
    {key, CONF_DURATION, fallback, min, max, "s", NULL, false, doc, NULL}
#define SIZE(key, fallback, min, max, doc)                                     \
    {key, CONF_SIZE, fallback, min, max, "bytes", NULL, false, doc, NULL}

#define DAY 86400.0
#define INT_MOST 2147483647

const struct conf_row plan_rows[] = {
    TEXT("run.name", "run", "experiment|exp_name|run_name|wandb_name",
         "name of the run in logs, notices and trackers"),
    PATH("run.dir", NULL, "output_dir|save|save_dir|dump_folder|ckpt_dir",
         "run directory, on a file system that all nodes see; %a is the "
         "task's number in a job array"),
    INT("run.seed", "1234", 0, INT_MOST, "", "seed|random_seed",
        "seed of the weights and of the data order"),

    CHOICE("model.preset", "",
           "gpt2-micro|gpt2-nano|gpt2-124m|gpt2-350m|gpt2-774m|gpt2-1558m|"
           "gpt3-7b|llama-micro|llama-nano|llama-1b|llama-3b|llama-8b",
           "model|model_name|flavor|model_name_or_path",
           "a known model; keys given beside it override it"),
    CHOICE("model.family", "", "gpt2|llama", "model_type|architecture",
           "names and defaults of the parts: gpt2 has LayerNorm, GELU, learned "
           "positions, biases, a tied head; llama RMSNorm, SwiGLU, RoPE"),
    INT("model.layers", "", 1, 1000, "layers",
        "num_layers|n_layer|n_layers|num_hidden_layers|depth",
        "number of layers"),
    INT("model.hidden_size", "", 8, 1 << 17, "",
        "n_embd|dim|d_model|width|embed_dim|hidden_dim|hidden",
        "width of the residual stream"),
    INT("model.heads", "", 1, 4096, "heads",
        "num_attention_heads|n_head|n_heads|num_heads", "query heads"),
    INT("model.kv_heads", "", 1, 4096, "heads",
        "num_query_groups|num_key_value_heads|n_kv_heads|n_head_kv",
        "key and value heads; unset: as many as query heads"),
    INT("model.head_dim", "", 1, 1024, "", "kv_channels|head_size",
        "width of a head; unset: hidden_size / heads"),
    INT("model.ffn_size", "", 8, 1 << 20, "",
        "ffn_hidden_size|intermediate_size|n_inner|ffn_dim|mlp_dim",
        "width of the feed-forward block; unset: 4 hidden_size for GELU, "
        "8/3 hidden_size rounded up to 256 for SwiGLU"),
    INT("model.vocab_size", "", 2, 1 << 24, "tokens",
        "vocab|padded_vocab_size|n_vocab",
        "size of the vocabulary; unset: the tokenizer's"),
    INT("model.vocab_multiple", "128", 1, 1 << 16, "tokens",
        "make_vocab_size_divisible_by",
        "the vocabulary is padded to a multiple of this, in memory only"),
    INT("model.max_positions", "", 1, 1 << 24, "tokens",
        "max_position_embeddings|n_positions|n_ctx|max_seq_len",
        "learned positions, or the longest sequence; unset: train.seq_len"),
    CHOICE("model.norm", "", "layernorm|rmsnorm", "normalization",
           "normalisation, before each block and at the end"),
    REAL("model.norm_eps", "1e-5", 1e-12, 1e-1,
         "norm_epsilon|layernorm_epsilon|layer_norm_epsilon|rms_norm_eps",
         "added to the variance in a norm"),
    CHOICE("model.activation", "", "gelu|swiglu",
           "activation_function|hidden_act|swiglu",
           "of the feed-forward block; gelu in its tanh form"),
    CHOICE("model.position", "", "learned|rope",
           "position_embedding_type|use_rotary_position_embeddings",
           "how positions enter"),
    REAL("model.rope_theta", "", 1, 1e12, "rotary_base|rope_base",
         "base of RoPE's frequencies; unset: 10000"),
    CHOICE("model.rope_scaling", "none", "none|llama3", NULL,
           "how RoPE's waves are stretched for longer sequences"),
    REAL("model.rope_factor", "8", 1, 1e6, NULL,
         "llama3: long waves become this many times longer"),
    REAL("model.rope_low", "1", 1e-3, 1e6, "low_freq_factor",
         "llama3: waves of more than rope_positions / rope_low are long"),
    REAL("model.rope_high", "4", 1e-3, 1e6, "high_freq_factor",
         "llama3: waves of less than rope_positions / rope_high stay"),
    INT("model.rope_positions", "8192", 1, 1 << 24, "tokens",
        "original_max_position_embeddings",
        "llama3: longest sequence that the model was first trained on"),
    BOOL("model.bias_qkv", "", "add_qkv_bias|attention_bias",
         "bias of query, key and value"),
    BOOL("model.bias_out", "", "bias_o", "bias of attention's output"),
    BOOL("model.bias_ffn", "", "mlp_bias|add_bias_linear|bias",
         "biases of the feed-forward block"),
    BOOL("model.bias_norm", "", NULL, "bias of LayerNorm"),
    BOOL("model.tied", "",
         "tie_word_embeddings|untie_embeddings_and_output_weights|tie_weights",
         "the head is the embedding"),
    BOOL("model.qk_norm", "false", "qk_layernorm|use_qk_norm",
         "RMSNorm on each query and key head, before RoPE"),
    REAL("model.init_std", "0.02", 0, 10, "init_method_std|initializer_range",
         "standard deviation of the first weights; residual projections get "
         "it divided by sqrt(2 layers)"),

    LIST("data.train", NULL,
         "data_path|train_data_path|dataset|dataset_path|data|files|path",
         "token files to train on, each '[WEIGHT] PREFIX' of PREFIX.bin and "
         "PREFIX.idx; made by koboshi data build"),
    LIST("data.valid", "", "valid_data_path|validation|val",
         "token files to validate on"),
    TEXT("data.split", "", NULL,
         "shares of data.train for training, validation, test, as 969,30,1"),
    TEXT("data.tokenizer", "byte", "tokenizer_type|tokenizer_model",
         "byte, or a tokenizer's file or folder (tokenizer.json, vocab.json)"),
    INT("data.eod_token", "", 0, 1 << 24, "", "eos_token_id|eod",
        "token at a document's end; unset: the tokenizer's, or none"),
    BOOL("data.eod_mask_loss", "false", NULL,
         "no loss where the input is the end of a document"),
    BOOL("data.reset_positions", "false", "reset_position_ids",
         "positions start again after each document"),
    BOOL("data.reset_attention", "false",
         "reset_attention_mask|intra_doc_masking",
         "documents in a sequence do not see each other"),
    BOOL("data.blend_by_size", "false", NULL,
         "each weight of data.train counts for each token of its file; false: "
         "for the file as a whole"),
    BOOL("data.continue_changed", "false", NULL,
         "a resumed run goes on with other files, weights or sequence length, "
         "without reading anything twice; false: they are refused"),

    INT("train.steps", NULL, 1, MANY, "steps",
        "train_iters|max_steps|num_train_steps|training_steps|max_iters|"
        "num_iterations|iterations",
        "optimizer steps of the whole run"),
    INT("train.seq_len", "", 1, 1 << 24, "tokens",
        "seq_length|sequence_length|block_size|context_length",
        "tokens of a sequence; unset: model.max_positions"),
    INT("train.global_batch", "64", 1, 1 << 24, "sequences",
        "global_batch_size|batch_size|train_batch_size|"
        "gradient_accumulation_steps",
        "sequences of an optimizer step, over all ranks"),
    INT("train.batch_warmup_start", "0", 0, 1 << 24, "sequences",
        "rampup_batch_size", "global batch of the first step; 0: "
        "train.global_batch from the start"),
    INT("train.batch_warmup_increment", "", 1, 1 << 24, "sequences", NULL,
        "by which the global batch grows; unset: batch_warmup_start"),
    INT("train.batch_warmup_samples", "0", 0, MANY, "samples", NULL,
        "drawn until the global batch is train.global_batch"),
    INT("train.seq_warmup_start", "0", 0, 1 << 24, "tokens", NULL,
        "of each sequence that the first step uses, the rest is left out and "
        "counted; 0: all from the start"),
    INT("train.seq_warmup_increment", "", 1, 1 << 24, "tokens", NULL,
        "by which they grow; unset: seq_warmup_start"),
    INT("train.seq_warmup_steps", "0", 0, MANY, "steps", NULL,
        "until all tokens of a sequence are used"),
    INT("train.micro_batch", "1", 1, 1 << 16, "sequences",
        "micro_batch_size|per_device_train_batch_size|local_batch_size|"
        "train_micro_batch_size_per_gpu",
        "sequences that a rank computes at once"),
    CHOICE("train.device", "auto", "auto|cpu|cuda", "backend",
           "auto: GPUs where the job has them"),
    CHOICE("train.precision", "auto", "auto|fp32|fp64|bf16|fp16",
           "dtype|mixed_precision|params_dtype|torch_dtype|bf16",
           "of weights and activations; auto: bf16 on GPUs, fp32 on CPUs. "
           "fp64 is for proofs, on CPUs. Master weights are fp32"),
    CHOICE("train.gradients", "fp32", "fp32|bf16",
           "grad_reduce_in_fp32|grad_reduce_in_bf16|"
           "accumulate_allreduce_grads_in_fp32|reduce_dtype",
           "what gradients of weights add up in; bf16 halves their memory and "
           "traffic, and rounds each addition"),
    BOOL("train.deterministic", "true", "deterministic_mode",
         "the same run gives the same bits (always so on CPUs)"),
    CHOICE("train.recompute", "auto", "auto|none|selective|full",
           "recompute_granularity|activation_checkpoint|"
           "gradient_checkpointing|activation_checkpointing",
           "what backward computes again instead of keeping it: nothing, what "
           "is cheap (norms, GELU, SwiGLU), or whole layers; auto: as little "
           "as fits the memory, layer by layer"),
    INT("train.recompute_layers", "", 0, 1000, "layers",
        "recompute_num_layers",
        "layers that train.recompute is for; of the others, with full, what "
        "is cheap is computed again; unset: all"),

    REAL("fp16.scale", "65536", 1, 0x1p40,
         "initial_loss_scale|initial_scale_power|loss_scale|init_scale",
         "precision fp16: what the loss is multiplied by at the start"),
    INT("fp16.window", "1000", 1, 1 << 30, "steps",
        "loss_scale_window|growth_interval",
        "steps without an overflow after which the scale is doubled"),
    INT("fp16.hysteresis", "2", 1, 1000, "overflows", "hysteresis",
        "overflows after which the scale is halved, counted anew whenever it "
        "is doubled"),
    REAL("fp16.min_scale", "1", 1e-6, 0x1p40, "min_loss_scale",
         "the scale never falls below; an overflow there is a gradient that "
         "is not finite"),

    REAL("optim.lr", "3e-4", 0, 10, "learning_rate|max_lr",
         "learning rate after warmup"),
    REAL("optim.min_lr", "", 0, 10, "min_learning_rate|final_lr",
         "learning rate at the end; unset: a tenth of optim.lr"),
    CHOICE("optim.schedule", "cosine", "cosine|linear|constant",
           "lr_decay_style|lr_scheduler_type|lr_scheduler",
           "from optim.lr to optim.min_lr"),
    INT("optim.warmup_steps", "0", 0, MANY, "steps",
        "lr_warmup_iters|warmup_iters|num_warmup_steps|warmup",
        "steps over which the learning rate rises"),
    INT("optim.decay_steps", "", 1, MANY, "steps",
        "lr_decay_iters|decay_iters",
        "step at which the learning rate has come down; unset: train.steps"),
    REAL("optim.beta1", "0.9", 0, 0.999999, "adam_beta1|beta_1",
         "AdamW's memory of the gradient"),
    REAL("optim.beta2", "0.95", 0, 0.9999999, "adam_beta2|beta_2",
         "AdamW's memory of its square"),
    REAL("optim.eps", "1e-8", 1e-20, 1, "adam_eps|adam_epsilon|epsilon",
         "added to the root of the second moment"),
    REAL("optim.weight_decay", "0.1", 0, 10, "wd|decay",
         "decoupled, of matrices only"),
    REAL("optim.clip", "1.0", 0, 1e9,
         "clip_grad|max_grad_norm|gradient_clipping|grad_clip|max_norm",
         "largest norm of the whole gradient; 0: no clipping"),
    REAL("optim.z_loss", "0", 0, 1, "z_loss_coeff|z_loss_weight",
         "weight of the squared log of the softmax' sum in the loss"),

    CHOICE("parallel.layout", "given", "given|auto", "layout",
           "auto (also `parallel: auto`): the planner chooses tensor, pipeline "
           "and chunks, where they are not given, from model, ranks and "
           "memory; koboshi plan says why"),
    SIZE("parallel.memory", "0", 0, 0x1p50,
         "memory of a rank that auto plans for; 0: its GPU's"),
    INT("parallel.data", "", 1, 1 << 20, "ranks",
        "data_parallel_size|dp|data_parallel_replicate_degree|"
        "data_parallel_shard_degree",
        "data parallel ranks; unset: all that the others leave"),
    INT("parallel.tensor", "1", 1, 1024, "ranks",
        "tensor_model_parallel_size|tensor_parallel_degree|tp|"
        "tensor_parallel_size",
        "ranks that share each layer"),
    INT("parallel.pipeline", "1", 1, 1024, "ranks",
        "pipeline_model_parallel_size|pipeline_parallel_degree|pp|"
        "pipeline_parallel_size",
        "ranks in line, each with some layers"),
    INT("parallel.chunks", "1", 1, 1024, "chunks",
        "virtual_pipeline_model_parallel_size|"
        "num_virtual_stages_per_pipeline_rank|interleave",
        "runs of layers on each pipeline stage; more make the pipeline fill "
        "faster, and talk more (interleaved)"),
    CHOICE("parallel.shard_optimizer", "auto", "auto|true|false",
           "use_distributed_optimizer|zero|zero_stage|zero_optimization|fsdp",
           "each data parallel rank keeps its part of master weights and "
           "moments, instead of all; auto: where there are several, on CPUs. "
           "There the bits are the same"),
    INT("parallel.ranks_per_node", "", 1, 1024, "ranks",
        "nproc_per_node|gpus_per_node|ntasks_per_node|num_gpus",
        "ranks on a node; unset: one a GPU, or one a node without"),

    INT("checkpoint.interval", "1000", 1, MANY, "steps",
        "save_interval|save_steps|ckpt_interval|checkpoint_interval",
        "steps between checkpoints"),
    INT("checkpoint.keep", "3", 2, 1000000, "checkpoints",
        "keep_latest_k|save_total_limit|keep_last",
        "newest valid checkpoints that stay"),
    SIZE("checkpoint.shard_size", "4G", 1 << 20, 0x1p40,
         "most bytes of one file of a checkpoint"),
    TEXT("checkpoint.resume", "auto", "load|resume_from_checkpoint|resume",
         "auto: newest valid and healthy one; fresh: from step 0; or a step's "
         "number. Newer ones than that go to quarantine (--llm-resume)"),

    INT("eval.interval", "", 0, MANY, "steps", "eval_steps|val_interval",
        "steps between validations; 0: none; unset: 1000 where there is "
        "something to validate on"),
    INT("eval.batches", "10", 1, MANY, "batches", "eval_iters|val_batches",
        "global batches of a validation"),

    INT("log.interval", "10", 1, MANY, "steps",
        "log_interval|logging_steps|log_freq", "steps between log lines"),
    BOOL("log.tensorboard", "true", "tensorboard_dir|enable_tensorboard",
         "write TensorBoard event files into the run directory"),
    TEXT("log.mlflow_uri", "", "mlflow_tracking_uri",
         "http address of an MLflow server"),
    TEXT("log.mlflow_experiment", "koboshi", "mlflow_experiment_name",
         "experiment there"),

    INT("guard.window", "128", 8, 65536, "steps", NULL,
        "steps of loss and gradient norm to compare with"),
    REAL("guard.sigma", "6", 0, 1000, NULL,
         "deviations above the mean that count as an anomaly; 0: off"),
    INT("guard.skip_steps", "100", 0, 1000000, "steps", "iterations_to_skip",
        "steps of data left out after a roll back"),
    INT("guard.healthy_after", "20", 1, 1000000, "steps", NULL,
        "good steps after a checkpoint that prove it healthy"),

    INT("recovery.spares", "0", 0, 65536, "nodes", NULL,
        "nodes of the job kept back to replace bad ones (--llm-spares)"),
    INT("recovery.max_restarts", "20", 0, 100000, "restarts",
        "max_restart|restart_limit",
        "failures after which the run stops (--llm-max-restarts)"),
    TIME("recovery.refill", "6h", 60, 365 * DAY,
         "one restart comes back to the budget in each such time"),
    BOOL("recovery.elastic", "false", NULL,
         "go on with fewer nodes when no spare is left"),
    INT("recovery.min_nodes", "1", 1, 65536, "nodes", NULL,
        "fewest nodes to go on with"),
    TIME("recovery.stall_min", "30s", 1, DAY,
         "a rank is never called stalled before"),
    REAL("recovery.stall_factor", "3", 1, 1000, NULL,
         "times the slowest normal step, after which it is"),
    TIME("recovery.load_limit", "30m", 1, 7 * DAY,
         "longest time to load a checkpoint and make the first step"),
    TIME("recovery.wireup_limit", "60s", 1, DAY,
         "longest time for the ranks to find each other"),
    TIME("recovery.collective_limit", "10m", 5, DAY,
         "on GPUs: a collective that has not ended so long after it was queued "
         "is given up, and the rank with it"),
    TIME("recovery.heartbeat", "1s", 0.05, 600,
         "between a watcher's signs of life"),
    TIME("recovery.silent_limit", "8s", 0.2, 3600,
         "a node that is silent this long is lost"),
    TIME("recovery.save_before_limit", "5m", 0, DAY,
         "a checkpoint is saved this long before the time limit"),

    CHOICE("health.mode", "gate", "off|gate|full", NULL,
           "how closely nodes are looked at before a start; prolog and "
           "epilog go by what it is at submit"),

    TEXT("notify.webhook", "", "webhook_url|slack_webhook",
         "http address that gets a notice of each incident"),
    SECRET("notify.webhook_token", "sent to it as a bearer token"),

    INT("system.blas_threads", "", 1, 1024, "threads", "omp_num_threads",
        "threads of a CPU rank; unset: its cores at the first attempt"),
    TEXT("system.blas_core", "auto", "openblas_coretype",
         "OpenBLAS's core type; auto: that of the first attempt's nodes"),
};
const int plan_rows_n = sizeof plan_rows / sizeof *plan_rows;
