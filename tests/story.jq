# story - the journal's events as sentences for the demo. Input: a raw line;
# $t0: wall seconds at the start. Output: one line of text, or nothing.
def node: .node // "?";
def list: (. // []) | if type == "array" then join(", ") else tostring end;
def seconds: (. * 10 | round) / 10 | tostring + " s";
def after: if .seconds != null then " after \(.seconds | seconds)" else "" end;
def short: tostring | sub(".*/"; "");

# Paths are long; their last two parts say it.
def brief: tostring | gsub("'/[^']*/(?<f>[^/']+/[^/']+)'"; "'\(.f)'");

def sentence: {
    attempt_start: ("attempt \(.attempt) starts on \(.nodes | list)"
        + (if (.spares // [] | length) > 0 then ", spare \(.spares | list)"
           else ", no spare" end)),
    preflight: ("\(node): looked at before the start: "
        + (if .ok then "good" else "bad: \(.message // .findings // "")" end)),
    launch: ("ranks are launched on \(.nodes | list)"),
    watcher_lost: ("lost \(node): its watcher's connection is \(.how)\(after)"),
    rank_exit: ("rank \(.rank) on \(node) ended: "
        + (if (.signal // 0) != 0 then "signal \(.signal)" else "exit code \(.code)" end)
        + (if (.message // "") != "" then " (\(.message))" else "" end)),
    rank_error: ("rank \(.rank) says: \(.message)"),
    stall: ("rank \(.rank) on \(node) is stuck in \(.phase)\(after)"),
    resume: ((if (.step // 0) > 0 then "goes on from step \(.step), \(.checkpoint | short)"
             else "begins at step 0" end)
        + (if (.why // "") != "" then ": \(.why)" else "" end)),
    checkpoint_rejected: ("checkpoint \(.checkpoint | short) is not taken: \(.reason | brief)"),
    checkpoint_quarantined: ("checkpoint \(.checkpoint | short) goes to quarantine"),
    checkpoint_saved: ("checkpoint of step \(.step) saved"),
    first_step: ("first step of this attempt done: \(.step)"),
    signal: ("Slurm sends \(.signal)"),
    finding: ("\(node): \(.code) \(.subject): \(.message)"),
    diagnosis: ("diagnosis: \(.class), \(.subject): \(.cause)\(after)"
        + (if (.evidence // "") != "" then " [\(.evidence | list)]" else "" end)),
    action: ("action: \(.action)"
        + (if (.spare // "") != "" then ", spare \(.spare)"
           elif (.node // "") != "" then ", \(.node)" else "" end)
        + (if (.why // "") != "" then ": \(.why)" else "" end)),
    requeue: ("the job requeues itself, without \(.exclude | list)"),
    stop: ("stops: \(.message)\(if .remedy then "; \(.remedy)" else "" end)"),
    done: ("all steps done: step \(.step), loss \(.loss)")
}[.event];

def clock: (. * 10 | round) / 10 | tostring
    | if contains(".") then . else . + ".0" end
    | " " * ([0, 6 - length] | max) + .;

fromjson? | (sentence // empty) as $text | "[\(.time - $t0 | clock) s] \($text)"
