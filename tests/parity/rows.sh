# rows - the rows of table.sh as checks. Sourced behind tap.sh. No row at all, or
# a table that ends early, is a failure too.
# shellcheck shell=bash
ROWS_HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
export TABLE_BUILD=${CLUSTER_BUILD:-$ROWS_HERE/../../build}

# rows LEAST ARGUMENTS...: table.sh of these arguments has so many rows or more.
rows() {
    local least=$1 line n=0 rc
    shift
    while IFS= read -r line; do
        case $line in
        *"| shape"* | *---*) echo "# $line" ; continue ;;
        *yes\ \|) ok "$line" true ;;
        *) ok "$line" false ;;
        esac
        n=$((n + 1))
    done < <("$ROWS_HERE/table.sh" "$@")
    wait $!
    rc=$?
    [ $n -ge "$least" ] && [ $rc = 0 ]
    is "$?" 0 "table.sh $* ends well, $n rows (exit $rc)"
}
