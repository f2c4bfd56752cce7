#!/bin/bash
# Incidents are told to notify.webhook: a failure, what is done about it, the
# first new step, the end; with the token, which stands nowhere else.
. "$(dirname "$0")/run.sh"
test_run 3
webhook=$CLUSTER_DIR/webhook
mkdir -p "$webhook"

# A web server: each request to a file of its own, answered with 200.
serve() {
    exec perl -MIO::Socket::INET -e '
        my ($dir) = @ARGV;
        my $server = IO::Socket::INET->new(Listen => 8, LocalAddr => "0.0.0.0")
            or die "listen: $@";
        open my $port, ">", "$dir/port.new"; print $port $server->sockport;
        close $port; rename "$dir/port.new", "$dir/port";
        for (my $n = 1; my $peer = $server->accept; $n++) {
            my ($text, $length) = ("", 0);
            while (my $line = <$peer>) {
                $text .= $line;
                $length = $1 if $line =~ /^Content-Length: (\d+)/i;
                last if $line eq "\r\n";
            }
            read $peer, my $body, $length;
            open my $out, ">", sprintf("%s/%03d.new", $dir, $n);
            print $out $text, $body; close $out;
            rename sprintf("%s/%03d.new", $dir, $n),
                sprintf("%s/%03d.request", $dir, $n);
            print $peer "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n",
                "Connection: close\r\n\r\n";
            close $peer;
        }' "$webhook"
}
serve &
server=$!
ok "a web server listens" wait_until 10 test -s "$webhook/port"
run_write run "notify.webhook=http://$CLUSTER_NET.1:$(cat "$webhook/port")/hook" \
    notify.webhook_token=t0ken-of-the-test

# The notices' bodies in order.
bodies() { sed -s '1,/^\r$/d' "$webhook"/*.request 2>/dev/null | sed 's/}{"record/}\n{"record/g'; }
told() { bodies | jq -e "select(.record.event==\"$1\") | .text" >/dev/null 2>&1; }

ok "submitted" run_submit -N 2
ok "it trains" run_wait_checkpoint 60 40
ok "rank 1 is killed" cluster_signal "$(run_node_of_rank 1)" KILL koboshi-train
ok "the failure is told" wait_until 30 told diagnosis
ok "and what is done" wait_until 10 told action
ok "and the first new step" wait_until 60 told first_step
ok "the job ends" run_wait_over 120
ok "the end is told" wait_until 10 told done
like "$(bodies | jq -r 'select(.record.event=="diagnosis") | .text')" \
    "^test, job [0-9]+, attempt 1: failure: rank 1 on .*killed" "in words"
is "$(bodies | jq -s '[.[].record | select(.job and .attempt and .run)] | length')" \
    "$(find "$webhook" -name '*.request' | wc -l)" "each with run, job, attempt"
ok "with the token" grep -q '^Authorization: Bearer t0ken-of-the-test' "$webhook"/001.request
nok "which is nowhere in the run directory" grep -rqs t0ken-of-the-test "$RUN"
nok "nor in the job's output" grep -qs t0ken-of-the-test "$RUN.job.out"
kill "$server"
tap_done
