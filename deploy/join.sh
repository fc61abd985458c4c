#!/usr/bin/env bash
# join.sh FROM TO lets the controller of one cluster read another: see usage. It needs only kubectl.
# The token is only in pipes and variables: never in an argument, which other users of this machine
# could read, and never in a file.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
namespace=multicluster-system account=multicluster-peer label=clusterset-dns.io/peer leaving=clusterset-dns.io/leaving

usage() {
  cat <<'EOF'
deploy/join.sh [OPTION]... FROM TO

Lets cluster TO import what cluster FROM exports. FROM and TO are contexts of the kubeconfig. Both
clusters run the controller. For both directions, run the script twice, with the contexts swapped.

In FROM, the script applies deploy/peer (unless the Helm chart has installed it), an account that can
list and watch what peers read. It creates a token of that account for this reader: the Secret
multicluster-peer-<ID of TO>. In TO, it creates the Secret <ID of FROM> with a kubeconfig that
contains the token. Both Secrets are in the namespace multicluster-system. If you run the script
again, it creates what is missing and leaves the rest unchanged.

  --leave             undo: TO stops reading FROM. The last --leave also deletes the account,
                      unless the chart has installed it
  --server URL        address of FROM's API server for the pods of TO, if the kubeconfig contains
                      another one, such as 127.0.0.1 or a bastion
  --ca FILE           certificate authority of that server, in PEM, if it is not in the kubeconfig
  --id ID             cluster ID of FROM, if its controller does not announce one
  --to-id ID          cluster ID of TO, if its controller does not announce one
  --timeout SECONDS   how long to wait for the token (default 30)
  --help              show this text
EOF
}

fail() {
  printf 'join.sh: %s\n' "$*" >&2
  exit 1
}

from='' to='' leave='' server='' ca_file='' id='' to_id='' timeout=30

parse() {
  while [ $# -gt 0 ]; do
    case $1 in
    --help | -h)
      usage
      exit
      ;;
    --leave) leave=yes ;;
    --server | --ca | --id | --to-id | --timeout)
      [ -n "${2:-}" ] || fail "$1 needs a value; see --help"
      case $1 in
      --server) server=$2 ;;
      --ca) ca_file=$2 ;;
      --id) id=$2 ;;
      --to-id) to_id=$2 ;;
      --timeout) timeout=$2 ;;
      esac
      shift
      ;;
    -*) fail "unknown option $1; see --help" ;;
    *)
      [ -z "$to" ] || fail "unexpected argument «$1» after the contexts FROM and TO; see --help"
      if [ -z "$from" ]; then from=$1; else to=$1; fi
      ;;
    esac
    shift
  done
  [ -n "$to" ] || fail "two contexts are required, FROM and TO; see --help"
  [[ $timeout =~ ^[0-9]+$ ]] || fail "--timeout «$timeout» is not a number of seconds"
}

# at CONTEXT ARG... runs kubectl with a context.
at() { kubectl --context "$@"; }

known_context() {
  local contexts
  contexts=$(kubectl config get-contexts -o name)
  grep -qFx -- "$1" <<<"$contexts" || fail "the kubeconfig has no context «$1»; it has: $(paste -sd' ' - <<<"$contexts")"
}

# cluster_id CONTEXT GIVEN OPTION prints the ID that the controller announces on its namespace,
# otherwise the given ID.
cluster_id() {
  local found announced
  found=$(at "$1" get namespace "$namespace" --ignore-not-found \
    -o jsonpath='{.metadata.name} {.metadata.annotations.clusterset-dns\.io/cluster-id}') || fail "cannot reach the cluster of context $1"
  [ -n "$found" ] || fail "no namespace $namespace in $1: install the controller in that cluster (Helm, or kubectl --context $1 apply -k deploy/controller)${leave:+, or set its ID with $3}"
  announced=${found#"$namespace "}
  [ -n "$announced$2" ] || fail "the controller in $1 does not announce a cluster ID: check that it runs (kubectl --context $1 get pods -n $namespace) and that it has an ID (--cluster-id, or the ClusterProperty), or set the ID with $3"
  [ -z "$2" ] || [ -z "$announced" ] || [ "$2" = "$announced" ] || fail "the controller in $1 announces the ID $announced, and $3 is $2: remove $3, or correct --cluster-id in that cluster"
  valid_id "${announced:-$2}" "$1"
  printf %s "${announced:-$2}"
}

# valid_id ID CONTEXT fails unless the ID is a DNS name and the value of a label.
valid_id() {
  local part='[a-z0-9]([-a-z0-9]*[a-z0-9])?'
  [[ $1 =~ ^$part(\.$part)*$ ]] || fail "invalid cluster ID «$1» of $2: use lower case letters, digits, - and ., with a letter or digit at both ends"
  [ ${#1} -le 63 ] || fail "the cluster ID «$1» of $2 has ${#1} characters, the limit is 63: set a shorter --cluster-id in that cluster"
}

unlike() {
  [ "$id" = "$to_id" ] || return 0
  local uids
  uids=$(for context in "$from" "$to"; do at "$context" get namespace kube-system -o jsonpath='{.metadata.uid}{"\n"}'; done | sort -u)
  [[ $uids == *$'\n'* ]] || fail "$from and $to are the same cluster, $id: a cluster is not its own peer"
  fail "$from and $to are two clusters with the same ID $id: set another --cluster-id in one of them"
}

# field NAME prints a field of the cluster of FROM in the kubeconfig. --flatten reads files that it names.
field() { kubectl config view --raw --minify --flatten --context "$from" -o "jsonpath={.clusters[0].cluster.$1}"; }

server_name='' ca=''

find_server() {
  if [ -z "$server" ]; then
    server=$(field server)
    server_name=$(field tls-server-name)
  fi
  [[ $server =~ ^https://[^[:space:]\"\\]+$ ]] || fail "the address «$server» of $from is not an https:// URL: set one with --server"
  if [ -n "$ca_file" ]; then
    grep -q '^-----BEGIN CERTIFICATE-----' "$ca_file" || fail "$ca_file is not a certificate in PEM"
    ca=$(base64 <"$ca_file" | tr -d '\n')
  else
    ca=$(field certificate-authority-data)
  fi
  [ -n "$ca" ] || fail "the kubeconfig has no certificate authority for $from: set its file with --ca"
  case ${server#https://} in
  127.* | localhost | localhost[:/]* | \[::1\]* | 0.0.0.0*)
    echo "join.sh: warning: $server is an address of this machine. Pods of $to cannot reach it, unless $to runs here too: set --server" >&2
    ;;
  esac
}

# make CONTEXT applies standard input. It does so server-side: otherwise an annotation would contain
# the token, and `kubectl describe` would show it.
make() { at "$1" apply --server-side --force-conflicts --field-manager=join.sh -f - >/dev/null; }

token_secret() { printf %s "$account-$to_id"; }

# called ID CONTEXT prints a cluster for a reader, who knows it by its ID or by its context.
called() { if [ "$1" = "$2" ]; then printf %s "$1"; else printf '%s (%s)' "$1" "$2"; fi; }

# managers prints one word for each existing object of deploy/peer with the label managed-by: "Helm" if
# a release has installed it. Such objects are not applied: kubectl would warn each time, and would
# compete with Helm for their fields.
managers() { at "$from" get -k "$here/peer" --ignore-not-found -o jsonpath='{..metadata.labels.app\.kubernetes\.io/managed-by}'; }

make_account() {
  local uid brought_by
  brought_by=$(managers) || fail "cannot read the account $account in the cluster of context $from"
  [ "$brought_by" = 'Helm Helm Helm' ] || at "$from" apply -k "$here/peer" >/dev/null
  echo "$(called "$id" "$from"): the account $account can list and watch what peers read"
  uid=$(at "$from" get serviceaccount "$account" -n "$namespace" -o jsonpath='{.metadata.uid}')
  drop_stale_token "$uid"
  make "$from" <<EOF
apiVersion: v1
kind: Secret
type: kubernetes.io/service-account-token
metadata:
  name: $(token_secret)
  namespace: $namespace
  labels: {clusterset-dns.io/reader: "$to_id"}
  annotations: {kubernetes.io/service-account.name: $account}
EOF
}

# drop_stale_token UID deletes a token of an earlier account with the same name: it is no longer valid.
drop_stale_token() {
  local of
  of=$(at "$from" get secret "$(token_secret)" -n "$namespace" --ignore-not-found -o jsonpath='{.metadata.annotations.kubernetes\.io/service-account\.uid}')
  [ -z "$of" ] || [ "$of" = "$1" ] || at "$from" delete secret "$(token_secret)" -n "$namespace" --ignore-not-found >/dev/null
}

token=''

await_token() {
  local until=$((SECONDS + timeout))
  while true; do
    token=$(at "$from" get secret "$(token_secret)" -n "$namespace" -o go-template='{{with .data}}{{with .token}}{{base64decode .}}{{end}}{{end}}')
    [ -z "$token" ] || break
    [ $SECONDS -lt $until ] || fail "the Secret $namespace/$(token_secret) in $from has no token after $timeout s. The serviceaccount-token-controller of kube-controller-manager fills it: check that it runs in $from"
    sleep 0.5
  done
  echo "$(called "$id" "$from"): the Secret $(token_secret) contains the token for $to_id. Delete it to revoke the access"
}

# kubeconfig uses printf, not a here-document: bash can write a here-document to a file for a moment.
kubeconfig() {
  printf '%s\n' "apiVersion: v1
kind: Config
clusters:
  - name: \"$id\"
    cluster:
      server: \"$server\"
      certificate-authority-data: \"$ca\"${server_name:+
      tls-server-name: \"$server_name\"}
users:
  - name: $account
    user: {token: \"$token\"}
contexts:
  - name: \"$id\"
    context: {cluster: \"$id\", user: $account}
current-context: \"$id\""
}

# not_foreign fails if TO has another Secret whose name is FROM's ID: it must not be overwritten.
not_foreign() {
  local found
  # shellcheck disable=SC2016 # a template's variables
  found=$(at "$to" get secret "$id" -n "$namespace" --ignore-not-found -o go-template='{{.metadata.name}}{{range $key, $value := .metadata.labels}} {{$key}}{{end}}')
  [ -z "$found" ] || [[ " $found " == *" $label "* ]] ||
    fail "$to has a Secret $namespace/$id without the label $label, so it is not a peer's Secret: delete it, or set another --cluster-id in $from"
}

make_peer() {
  printf '%s\n' "apiVersion: v1
kind: Secret
metadata:
  name: \"$id\"
  namespace: $namespace
  labels: {$label: \"\"}
data:
  kubeconfig: $(kubeconfig | base64 | tr -d '\n')" | make "$to"
  mark "$leaving-" # of a --leave that did not finish
  echo "$(called "$to_id" "$to"): the Secret $id contains a kubeconfig for $server"
  cat <<EOF
$to_id reads $id. To see whether it is connected, and the reason if not:
  kubectl --context $to get leases -n $namespace -l $label -L clusterset-dns.io/connected -L clusterset-dns.io/reason
EOF
}

# mark ANNOTATION sets an annotation on the peer's Secret and Lease in TO, if they exist. Without the
# mark, the controller treats a deleted Secret as an accident: it keeps everything from the peer for
# a minute, or for ten minutes after its own start. The mark on the Lease remains when the Secret is gone.
mark() { at "$to" annotate secrets,leases -n "$namespace" -l "$label" --field-selector "metadata.name=$id" --overwrite "$1" >/dev/null; }

join() {
  known_context "$from"
  known_context "$to"
  id=$(cluster_id "$from" "$id" --id)
  to_id=$(cluster_id "$to" "$to_id" --to-id)
  unlike
  find_server
  not_foreign
  make_account
  await_token
  make_peer
}

# leave cleans each side, even if the other one does not answer or no longer exists. Its ID is then
# required as an option.
leave() {
  local undone=''
  if [ -z "$id" ]; then
    known_context "$from"
    id=$(cluster_id "$from" '' --id)
  fi
  if [ -z "$to_id" ]; then
    known_context "$to"
    to_id=$(cluster_id "$to" '' --to-id)
  fi
  valid_id "$id" "$from"
  valid_id "$to_id" "$to"
  # The reader first: without its token it would report an error.
  if mark "$leaving=true" && at "$to" delete secrets -n "$namespace" -l "$label" --field-selector "metadata.name=$id" >/dev/null; then
    echo "$(called "$to_id" "$to"): the Secret $id is deleted. $to_id no longer reads $id"
  else
    undone+=" kubectl --context $to annotate secrets,leases -n $namespace -l $label --field-selector metadata.name=$id $leaving=true; kubectl --context $to delete secret -n $namespace $id;"
  fi
  if at "$from" delete secret -n "$namespace" --ignore-not-found "$(token_secret)" >/dev/null; then
    echo "$(called "$id" "$from"): the Secret $(token_secret) is deleted. The token of $to_id is no longer valid"
    drop_account || undone+=" deploy/join.sh --leave again, for the account $account in $from;"
  else
    undone+=" kubectl --context $from delete secret -n $namespace $(token_secret);"
  fi
  [ -z "$undone" ] || fail "one side did not answer. Do this when it answers again:$undone"
}

# drop_account deletes the account if no token of it is left, including tokens created by hand, and no
# reader with an account of its own, which needs the ClusterRole. If any of its objects belongs to a
# Helm release, all stay: an object that kubectl restored belongs to that account, too.
drop_account() {
  local left brought_by
  left=$(at "$from" get secrets -n "$namespace" --field-selector type=kubernetes.io/service-account-token \
    -o go-template='{{range .items}}{{if eq (index .metadata.annotations "kubernetes.io/service-account.name") "'"$account"'"}}{{.metadata.name}} {{end}}{{end}}') || return
  [ -z "$left" ] || return 0
  left=$(at "$from" get clusterrolebindings -l clusterset-dns.io/reader -o name) || return # of deploy/peer/reader.yaml
  [ -z "$left" ] || return 0
  brought_by=$(managers) || return
  [[ " $brought_by " != *' Helm '* ]] || return 0
  at "$from" delete -k "$here/peer" --ignore-not-found >/dev/null || return
  echo "$(called "$id" "$from"): the account $account is deleted, because no token of it is left"
}

parse "$@"
command -v kubectl >/dev/null || fail "kubectl is not in PATH"
if [ -n "$leave" ]; then leave; else join; fi
