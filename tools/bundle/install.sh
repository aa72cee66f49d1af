#!/bin/sh
# Installs gpupool from this folder, without a network. Checks every file before anything is done.
set -eu
umask 022

usage() {
    cat <<'TEXT'
sh install.sh [--prefix DIR] [--link DIR] [--python PROGRAM] [--key PUBLIC.pem]
    installs, or upgrades in place; the version before stays for --rollback
sh install.sh --verify [--key PUBLIC.pem]
    checks sums and signature, and does nothing else
sh PREFIX/install.sh --rollback
    the version before becomes the current one; again brings the newer one back
sh PREFIX/install.sh --uninstall
    removes what was installed; pools and their data stay

--prefix DIR      default: /opt/gpupool as root, else ~/.local/share/gpupool-bundle
--link DIR        where `gpupool` is linked; default: /usr/local/bin as root, else ~/.local/bin; `none`: nowhere
--python PROGRAM  the Python to install for; default: the newest on PATH that the bundle has wheels for
--key PUBLIC.pem  the Ed25519 key of the people who made the bundle; it must not come with the bundle
TEXT
}

fail() {
    printf 'install.sh: %s\n' "$1" >&2
    [ -z "${2:-}" ] || printf '  %s\n' "$2" >&2
    exit 1
}

here=$(cd "$(dirname "$0")" && pwd)
action=install prefix= link= python= key=
while [ $# -gt 0 ]; do
    case $1 in
    --prefix | --link | --python | --key)
        [ $# -gt 1 ] && [ -n "$2" ] || fail "$1 needs a value" "sh install.sh --help"
        case $1 in
        --prefix) prefix=$2 ;;
        --link) link=$2 ;;
        --python) python=$2 ;;
        --key) key=$2 ;;
        esac
        shift
        ;;
    --verify | --rollback | --uninstall) action=${1#--} ;;
    -h | --help)
        usage
        exit 0
        ;;
    *) fail "unknown option $1" "sh install.sh --help" ;;
    esac
    shift
done

# A copy lies in the prefix, for --rollback and --uninstall.
if [ -z "$prefix" ] && [ -d "$here/versions" ]; then
    prefix=$here
elif [ -z "$prefix" ] && [ "$(id -u)" = 0 ]; then
    prefix=/opt/gpupool
elif [ -z "$prefix" ]; then
    prefix=${HOME:?}/.local/share/gpupool-bundle
fi
case $prefix in
/*) ;;
*) prefix=$(pwd)/$prefix ;;
esac
case $prefix in
*[!A-Za-z0-9/._@+-]*) fail "--prefix $prefix: got other characters than letters, digits and /._@+-" "choose another directory" ;;
esac
if [ -z "$link" ]; then
    if [ "$(id -u)" = 0 ]; then link=/usr/local/bin; else link=${HOME:?}/.local/bin; fi
fi

verify() {
    cd "$here"
    [ -f SHA256SUMS ] || fail "$here holds no bundle: SHA256SUMS is missing" "run the install.sh of an unpacked bundle"
    if [ -n "$key" ]; then
        [ -f "$key" ] || fail "--key $key: no such file" "name the public key in PEM by its full path"
        [ -f SHA256SUMS.sig ] || fail "GP-1091: the bundle is not signed, and --key asks for a signature" \
            "ask the people who made it for a signed one"
        command -v openssl >/dev/null || fail "the program openssl is missing" "install it, or check the signature elsewhere"
        openssl pkeyutl -verify -pubin -inkey "$key" -rawin -in SHA256SUMS -sigfile SHA256SUMS.sig >/dev/null 2>&1 ||
            fail "GP-1091: the signature of SHA256SUMS is not of the key $key" "do not install this bundle"
        echo "signature: of $key"
    else
        echo "signature: NOT checked; --key PUBLIC.pem checks who made this bundle" >&2
    fi
    # Every wrong file is named.
    sha256sum --check --quiet --strict SHA256SUMS ||
        fail "GP-1090: a file differs from its sum in SHA256SUMS (named above)" "copy the bundle again"
    extra=$(find . -type f ! -name SHA256SUMS ! -name SHA256SUMS.sig | sed 's|^\./||' | sort | while read -r file; do
        grep -q -x -F -e "$(sha256sum "$file" | cut -c 1-64)  $file" SHA256SUMS || echo "$file"
    done)
    [ -z "$extra" ] || fail "GP-1090: files that SHA256SUMS does not have: $extra" "unpack the bundle into an empty folder"
    echo "sums: $(wc -l <SHA256SUMS) files as they were made"
}

find_python() {
    for one in ${python:-python3.14 python3.13 python3.12 python3.11 python3}; do
        version=$("$one" -c 'import sys, venv; print("%d.%d" % sys.version_info[:2])' 2>/dev/null) || continue
        if [ -f "$here/requirements/$version.txt" ]; then
            python=$(command -v "$one")
            return
        fi
    done
    have=$(cd "$here/requirements" && echo *.txt | sed 's/\.txt//g')
    fail "no usable Python: looked for ${python:-python3.14 … python3.11, python3}, and the bundle is for $have" \
        "install one with its module venv, or name it: --python PROGRAM"
}

# The pid of a process that uses files below a directory, or nothing.
find_user() {
    for process in /proc/[0-9]*; do
        if grep -q -s -F "$1/" "$process/maps" 2>/dev/null; then
            echo "${process#/proc/}"
            return
        fi
    done
}

point() { # LINK TARGET: in one step; what a run that was cut off has left is written over
    ln -sfn "$2" "$1.new"
    mv -T "$1.new" "$1"
}

lock() {
    exec 9>"$prefix/.lock"
    flock -n 9 || fail "another install.sh works in $prefix" "wait for it"
}

version_of() { basename "$(readlink "$1")"; }

install() {
    [ "$(uname -s)-$(uname -m)" = "Linux-$(sed -n 's/^ "machine": "linux-\(.*\)",*$/\1/p' "$here/manifest.json")" ] ||
        fail "this machine is $(uname -s) $(uname -m), and the bundle is for Linux x86_64"
    find_python
    requirements=requirements/$version.txt
    name=$(sed -n 's/^ "version": "\(.*\)",*$/\1/p' manifest.json)-$(sha256sum SHA256SUMS | cut -c 1-8)-py$version
    new=$prefix/versions/$name
    mkdir -p "$prefix/versions" "$prefix/bin"
    lock
    rm -f "$prefix/rollback" # one that was cut off: this run decides anew
    if [ ! -f "$new/.whole" ]; then
        need=$(sed -n 's/^# installed-kib: //p' "$requirements")
        free=$(df -Pk "$prefix" | awk 'NR == 2 { print $4 }')
        [ "$free" -gt "$need" ] ||
            fail "$prefix has $((free / 1024)) MiB free, and gpupool needs $((need / 1024)) MiB" "free some space, or choose another --prefix"
        echo "installs $name for $python"
        rm -rf "$new" # what a run that was cut off has left
        trap 'rm -rf "$new"' EXIT
        trap 'exit 130' INT HUP TERM
        "$python" -m venv --without-pip "$new"
        for pip in wheels/pip-*.whl; do :; done
        # --isolated: settings of this machine name an index or a proxy, and none is reachable.
        "$new/bin/python" "$pip/pip" --isolated install --quiet --disable-pip-version-check --no-cache-dir --no-index \
            --no-deps --only-binary :all: --require-hashes --find-links wheels --requirement "$requirements"
        "$new/bin/python" "$pip/pip" --isolated check >/dev/null || fail "pip check: packages of the bundle do not fit together"
        "$new/bin/gpupool" --version
        mkdir -p "$new/share/gpupool"
        for part in docs deploy fonts sbom.cdx.json LICENCES.md manifest.json; do
            [ ! -e "$part" ] || cp -R "$part" "$new/share/gpupool/"
        done
        cp install.sh "$new/share/gpupool/install.sh"
        sync -f "$new"
        : >"$new/.whole"
        trap - EXIT INT HUP TERM
    fi
    before=
    [ ! -L "$prefix/current" ] || before=$(version_of "$prefix/current")
    if [ "$before" = "$name" ]; then
        echo "$name is installed already"
    else
        [ -z "$before" ] || point "$prefix/previous" "versions/$before"
        point "$prefix/current" "versions/$name"
    fi
    cp "$new/share/gpupool/install.sh" "$prefix/install.sh.new"
    mv "$prefix/install.sh.new" "$prefix/install.sh"
    for program in gpupool kubectl-gpupool; do
        point "$prefix/bin/$program" "../current/bin/$program"
    done
    remove_old
    make_link
    echo
    if [ -n "$before" ] && [ "$before" != "$name" ]; then
        echo "upgraded $before to $name; a pool that runs keeps its version until it restarts:"
        echo "  gpupool backup FILE              first: an older version does not read a newer database"
        echo "  gpupool restart                  or: systemctl restart gpupool"
        echo "  sh $prefix/install.sh --rollback"
    else
        echo "next:"
        echo "  gpupool doctor"
        echo "  gpupool up --sim 2x8xH200        or, as root: gpupool up --system"
    fi
}

# Keeps the current version, the one before, and any that a process still uses.
remove_old() {
    for one in "$prefix"/versions/*/; do
        one=${one%/}
        name_of_one=${one##*/}
        [ "$name_of_one" != "$(version_of "$prefix/current")" ] || continue
        if [ -L "$prefix/previous" ] && [ "$name_of_one" = "$(version_of "$prefix/previous")" ]; then continue; fi
        pid=$(find_user "$one")
        if [ -n "$pid" ]; then
            echo "keeps $name_of_one: process $pid uses it"
        else
            rm -f "$one/.whole" # first: should this be cut off, the rest is no installation
            rm -rf "$one"
        fi
    done
}

make_link() {
    [ "$link" != none ] || return 0
    target=$link/gpupool
    if [ -e "$target" ] || [ -L "$target" ]; then
        case $(readlink "$target" || true) in
        "$prefix"/bin/gpupool) return 0 ;;
        *)
            echo "$target is of another installation and stays; run $prefix/bin/gpupool, or put $prefix/bin on PATH" >&2
            return 0
            ;;
        esac
    fi
    mkdir -p "$link"
    point "$target" "$prefix/bin/gpupool"
    case :$PATH: in
    *:"$link":*) ;;
    *) echo "put $link on PATH" ;;
    esac
}

# The link `rollback` names the version that becomes the current one, until it is: a run that was cut off is ended
# by the next, which goes nowhere else.
rollback() {
    [ -L "$prefix/rollback" ] || [ -L "$prefix/previous" ] ||
        fail "$prefix has no version before the current one" "nothing was changed"
    lock
    [ -L "$prefix/rollback" ] || point "$prefix/rollback" "$(readlink "$prefix/previous")"
    back=$(version_of "$prefix/rollback")
    if [ ! -f "$prefix/versions/$back/.whole" ]; then
        rm "$prefix/rollback"
        fail "$prefix/versions/$back is not whole" "nothing was changed"
    fi
    old=$(version_of "$prefix/current")
    if [ "$old" != "$back" ]; then
        point "$prefix/previous" "versions/$old"
        point "$prefix/current" "versions/$back"
    fi
    old=$(version_of "$prefix/previous")
    rm "$prefix/rollback"
    echo "current is $back, $old stays; then: gpupool restart"
    echo "  a database that $old has upgraded needs the backup from before: gpupool restore FILE"
}

uninstall() {
    [ -d "$prefix/versions" ] || [ -f "$prefix/install.sh" ] || [ -d "$prefix/bin" ] ||
        fail "$prefix holds no installation of a bundle" "name it: --prefix DIR"
    if grep -q -s -F "$prefix/" /etc/systemd/system/gpupool.service; then
        fail "the system service gpupool uses $prefix" "gpupool down --system  removes it"
    fi
    pid=$(find_user "$prefix/versions")
    [ -z "$pid" ] || fail "process $pid uses $prefix" "gpupool down  ends the pool and its jobs"
    lock
    if [ "$(readlink "$link/gpupool" || true)" = "$prefix/bin/gpupool" ]; then rm "$link/gpupool"; fi
    rm -f "$link/gpupool.new" "$prefix/bin/gpupool" "$prefix/bin/kubectl-gpupool" "$prefix"/bin/*.new "$prefix"/*.new
    rm -f "$prefix/current" "$prefix/previous" "$prefix/rollback"
    rm -rf "$prefix/versions"
    # Last: until here it can be called again to go on.
    rm -f "$prefix/install.sh" "$prefix/.lock"
    rmdir "$prefix/bin" "$prefix" 2>/dev/null || echo "$prefix holds files of others, which stay"
    echo "removed gpupool from $prefix; pools and their data stay: gpupool down --purge  would have removed them"
}

case $action in
install)
    verify
    install
    ;;
*) "$action" ;;
esac
