#!/bin/sh
# Does a fresh clone work on a bare machine? Clones HEAD into a temporary directory, once per target, and runs make there
# with no environment but certificates, proxies and indexes; no uv, pip, cmake, ninja or PostgreSQL on PATH; an empty home.
#
#     sh tools/clean_clone.sh [TARGET…]        (default: demo test)
set -eu
repository=$(cd "$(dirname "$0")/.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
mkdir "$work/bin" "$work/home"
[ $# -gt 0 ] || set -- demo test

for program in /usr/bin/* /bin/* /usr/sbin/* /sbin/*; do
  name=${program##*/}
  case $name in
    uv | uvx | pip* | cmake | ctest | cpack | ninja | ninja-build | pg_* | psql | postgres) ;;
    *) [ -e "$work/bin/$name" ] || ln -s "$program" "$work/bin/$name" ;;
  esac
done

for target in "$@"; do
  rm -rf "$work/clone" "$work/home/.cache"
  git clone --quiet "$repository" "$work/clone"
  echo "== make $target in a fresh clone of $(git -C "$work/clone" describe --always)"
  (
    cd "$work/clone"
    env -i HOME="$work/home" PATH="$work/bin" LANG=C.UTF-8 CI=true \
      ${SSL_CERT_FILE:+SSL_CERT_FILE="$SSL_CERT_FILE"} ${PIP_CERT:+PIP_CERT="$PIP_CERT"} \
      ${PIP_INDEX_URL:+PIP_INDEX_URL="$PIP_INDEX_URL"} ${UV_INDEX_URL:+UV_INDEX_URL="$UV_INDEX_URL"} \
      ${UV_DEFAULT_INDEX:+UV_DEFAULT_INDEX="$UV_DEFAULT_INDEX"} ${UV_FIND_LINKS:+UV_FIND_LINKS="$UV_FIND_LINKS"} \
      ${HTTPS_PROXY:+HTTPS_PROXY="$HTTPS_PROXY"} ${https_proxy:+https_proxy="$https_proxy"} \
      make "$target" </dev/null
  )
done
