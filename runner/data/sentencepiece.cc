// sentencepiece - the library behind functions that C can call; see
// sentencepiece.h. No exception leaves this file.
#include "runner/data/sentencepiece.h"

#include <sentencepiece_processor.h>

#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <string>
#include <vector>

struct spiece {
    sentencepiece::SentencePieceProcessor processor;
};

struct spiece *spiece_open(const char *path, char *why, size_t why_bytes)
{
    try {
        spiece *s = new spiece;
        const auto status = s->processor.Load(path);
        if (status.ok())
            return s;
        snprintf(why, why_bytes, "%s", status.ToString().c_str());
        delete s;
    } catch (const std::exception &e) {
        snprintf(why, why_bytes, "%s", e.what());
    }
    return nullptr;
}

void spiece_close(struct spiece *s) { delete s; }

int32_t spiece_vocab(const struct spiece *s)
{
    return s->processor.GetPieceSize();
}

int32_t spiece_eod(const struct spiece *s) { return s->processor.eos_id(); }

int64_t spiece_encode(const struct spiece *s, const char *text, size_t n,
                      int32_t **ret)
{
    try {
        std::vector<int> ids;
        if (!s->processor.Encode({text, n}, &ids).ok())
            return -1;
        *ret = static_cast<int32_t *>(malloc(sizeof(int32_t) *
                                             (ids.size() + 1)));
        if (!*ret)
            return -1;
        for (size_t i = 0; i < ids.size(); i++)
            (*ret)[i] = ids[i];
        return static_cast<int64_t>(ids.size());
    } catch (const std::exception &) {
        return -1;
    }
}

int64_t spiece_decode(const struct spiece *s, const int32_t *ids, size_t n,
                      char **ret)
{
    try {
        std::string text;
        if (!s->processor.Decode(std::vector<int>(ids, ids + n), &text).ok())
            return -1;
        *ret = static_cast<char *>(malloc(text.size() + 1));
        if (!*ret)
            return -1;
        memcpy(*ret, text.data(), text.size());
        return static_cast<int64_t>(text.size());
    } catch (const std::exception &) {
        return -1;
    }
}
