#!/bin/sh
# Runs targets of the Makefile on a fresh machine: a root made by debootstrap with Python, pip, git and make in it, and a
# clone of this repository's HEAD. As root, on Debian or Ubuntu.
#   sh tools/fresh.sh [--suite bookworm] [--mirror URL] [--root DIR] [--new] [TARGET ...]     default targets: demo test
#   sh tools/fresh.sh [OPTION ...] --command 'COMMAND'                                        a shell command instead
# The root is made once and kept as it was made (below $XDG_CACHE_HOME or /var/tmp); --new makes it again, and so does its
# age of 30 days. Every run gets a copy, which is removed at the end; --root DIR keeps the copy there and uses it again.
# The copy is / in namespaces of its own: mounts and processes end with it. How packages are fetched (apt's proxies, pip's
# configuration, certificates, PIP_* and UV_* variables, folders of wheels that these name) is taken from this machine.
set -eu
suite=bookworm mirror="" work="" new="" command=""
while [ $# -gt 0 ]; do
	case $1 in
		--suite) suite=$2; shift 2 ;;
		--mirror) mirror=$2; shift 2 ;;
		--root) work=$2; shift 2 ;;
		--new) new=1; shift ;;
		--command) command=$2; shift 2 ;;
		--) shift; break ;;
		-*) echo "fresh.sh: unknown option $1" >&2; exit 2 ;;
		*) break ;;
	esac
done
[ $# -gt 0 ] || set -- demo test
[ -n "$command" ] || for target in "$@"; do command="${command:+$command && }make $target"; done
[ "$(id -u)" = 0 ] || { echo "fresh.sh: must run as root: debootstrap and mounts need it" >&2; exit 1; }
top=$(cd "$(dirname "$0")/.." && pwd)
cache=${XDG_CACHE_HOME:-/var/tmp}/holdfast-fresh
base=$cache/$suite
mkdir -p -m 700 "$cache"
[ -O "$cache" ] || { echo "fresh.sh: $cache belongs to another user" >&2; exit 1; }

case $suite in
	jammy | noble | plucky | questing | resolute)
		components=main,universe mirror=${mirror:-http://archive.ubuntu.com/ubuntu} script=gutsy ;;
	*)
		components=main mirror=${mirror:-http://deb.debian.org/debian} script=sid ;;
esac
make_base() {
	[ -z "$new" ] || rm -rf --one-file-system "$base"
	[ -z "$(find "$base" -maxdepth 0 -mtime +30 2>/dev/null)" ] || rm -rf --one-file-system "$base"
	[ ! -d "$base" ] || return 0
	sh "$top/tools/packages.sh" debootstrap=debootstrap
	echo "fresh.sh: making $base from $mirror"
	rm -rf --one-file-system "$base.new"
	# A release that is younger than debootstrap is made as its predecessors were.
	[ ! -e "/usr/share/debootstrap/scripts/$suite" ] || script=$suite
	debootstrap --variant=minbase --components=$components --include=ca-certificates,python3,python3-venv,python3-pip,git,make \
		"$suite" "$base.new" "$mirror" "$script" >"$base.log" 2>&1 || { tail -n 5 "$base.log" >&2; exit 3; }
	touch "$base.new"
	mv "$base.new" "$base"
}
exec 9>"$base.lock"
flock 9
make_base
for left in "$base".run.*; do # of runs that were killed
	[ -e "/proc/${left##*.}" ] || rm -rf --one-file-system "$left"
done
if [ -z "$work" ]; then
	work=$base.run.$$
	trap 'rm -rf --one-file-system "$work"' EXIT
	trap 'exit 130' INT TERM HUP
fi
if [ ! -d "$work/root" ]; then
	mkdir -p "$work"
	cp -a --reflink=auto "$base/." "$work/"
fi
exec 9>&-

# How this machine reaches its packages.
cp -L /etc/resolv.conf /etc/hosts "$work/etc/"
mkdir -p "$work/etc/apt/apt.conf.d" "$work/etc/ssl/certs" "$work/root/.config" "$cache/$suite.packages"
for file in /etc/apt/apt.conf.d/*; do
	case $file in *proxy* | *registry* | *mirror*) cp "$file" "$work/etc/apt/apt.conf.d/" ;; esac
done
[ ! -f /etc/ssl/certs/ca-certificates.crt ] || cp /etc/ssl/certs/ca-certificates.crt "$work/etc/ssl/certs/"
[ ! -f /etc/pip.conf ] || cp /etc/pip.conf "$work/etc/"
[ ! -d "$HOME/.config/pip" ] || cp -r "$HOME/.config/pip" "$work/root/.config/"
folders=$({ pip config list 2>/dev/null || true; env | grep -E '^(PIP|UV)_(FIND_LINKS|INDEX_URL|EXTRA_INDEX_URL)='; } | tr "'\" =" '\n\n\n\n' |
	sed 's#^file://##' | grep '^/' | sed 's#/simple/*$##' | sort -u) || true
variables=$(env | grep -E '^(PIP|UV)_[A-Z_]+=|^(SSL_CERT_FILE|HTTPS?_PROXY|https?_proxy|no_proxy|PYTEST_ADDOPTS|HOLDFAST_TEST_[A-Z_]+)=' || true)

# The commit, not the working tree: what was forgotten in a commit fails here.
clone=$work/root/holdfast
if [ -d "$clone/.git" ]; then
	git -C "$clone" fetch --quiet "$top" HEAD
	git -C "$clone" -c advice.detachedHead=false checkout --quiet --force FETCH_HEAD
	git -C "$clone" clean --quiet -fd
else
	git clone --quiet --no-hardlinks "$top" "$clone"
fi

export work folders variables command packages="$cache/$suite.packages"
unshare --mount --pid --fork --kill-child --propagation private sh -euc '
	mount --bind "$work" "$work"
	mount --rbind /sys "$work/sys"
	mount --rbind /dev "$work/dev"
	mount -t proc proc "$work/proc"
	mount -t tmpfs -o mode=755 tmpfs "$work/run"
	mount --bind "$packages" "$work/var/cache/apt/archives"
	for folder in $folders; do
		[ -d "$folder" ] || continue
		mkdir -p "$work$folder"
		mount --bind "$folder" "$work$folder"
	done
	# Not only chroot: / has to be a mount point for namespaces below it.
	cd "$work"
	pivot_root . mnt
	umount --lazy /mnt
	IFS="
"
	exec /usr/bin/env -i HOME=/root LANG=C.UTF-8 TERM="${TERM:-dumb}" \
		PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin $variables \
		sh -euc "cd /root/holdfast; $command; exit" # the shell stays: it is the init that reaps
'
