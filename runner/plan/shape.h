/* shape - one description of the models that Koboshi trains: GPT-2 and Llama
 * families and what lies between.
 *
 * Dimension alphabet of the whole tree: B batch (sequences), T sequence
 * (tokens), C model width, H heads, K key/value heads, D head width, F
 * feed-forward width, V vocabulary (Vp padded, in memory only), L layers,
 * N = B*T tokens.
 */
#ifndef KB_PLAN_SHAPE_H
#define KB_PLAN_SHAPE_H

#include <stdbool.h>
#include <stdint.h>

enum shape_norm { SHAPE_LAYERNORM, SHAPE_RMSNORM };
enum shape_act { SHAPE_GELU, SHAPE_SWIGLU };       /* GELU: tanh form */
enum shape_pos { SHAPE_LEARNED, SHAPE_ROPE };      /* RoPE: half-split */
enum shape_names { SHAPE_NAMES_GPT2, SHAPE_NAMES_LLAMA }; /* Hugging Face's */

struct shape {
    enum shape_names names;
    enum shape_norm norm;
    enum shape_act act;
    enum shape_pos pos;
    int L, C, H, K, D, F, V, Vp;
    int T_max;             /* learned positions, or the longest trained */
    double rope_theta;
    /* Llama 3.1's longer wave lengths: those above rope_positions / rope_low
     * tokens are stretched rope_factor times, those below rope_positions /
     * rope_high not, and in between by degrees. factor 0: none are. */
    double rope_factor, rope_low, rope_high;
    int rope_positions;
    double norm_eps;
    bool bias_qkv, bias_o, bias_ffn, bias_norm; /* norm bias: LayerNorm only */
    bool tied;             /* head is the embedding */
    bool qk_norm;          /* RMSNorm [D] on each head before RoPE */
    double init_std;       /* residual projections: init_std / sqrt(2L) */
    /* One rank's share of a model (share.h) is a shape, too: its layers, its
     * heads, its rows of the vocabulary; all zero: the whole model. */
    int tensor;            /* ranks that share each layer; 0 and 1: none do.
                            * Tokens of norms and the residual stream are cut
                            * among them */
    bool no_embed, no_head; /* another pipeline stage's: the embeddings; the
                            * final norm and the head */
};

#endif
