#!/bin/sh
# Runs commands of the Makefile on a fresh machine: a root made by debootstrap with Python, pip, git and make in it, and
# a clone of this repository's HEAD. As root, on Debian or Ubuntu.
#   sh tools/fresh.sh [--suite bookworm] [--mirror URL] [--root DIR] [TARGET ...]      default targets: demo test
# The root is made once and kept (default: /var/tmp/holdfast-fresh/SUITE); --new makes it again. Mounts live in a
# namespace of their own and are gone with it. How packages are fetched (apt's and pip's configuration, certificates,
# PIP_* and UV_* variables, folders of wheels that these name) is taken from this machine.
set -eu
suite=bookworm mirror="" root="" new=""
while [ $# -gt 0 ]; do
	case $1 in
		--suite) suite=$2; shift 2 ;;
		--mirror) mirror=$2; shift 2 ;;
		--root) root=$2; shift 2 ;;
		--new) new=1; shift ;;
		--) shift; break ;;
		-*) echo "fresh.sh: unknown option $1" >&2; exit 2 ;;
		*) break ;;
	esac
done
[ $# -gt 0 ] || set -- demo test
[ "$(id -u)" = 0 ] || { echo "fresh.sh: must run as root: debootstrap and mounts need it" >&2; exit 1; }
top=$(cd "$(dirname "$0")/.." && pwd)
root=${root:-/var/tmp/holdfast-fresh/$suite}
[ -z "$new" ] || rm -rf --one-file-system "$root"

if [ ! -e "$root/.ready" ]; then
	sh "$top/tools/packages.sh" debootstrap=debootstrap
	rm -rf --one-file-system "$root"
	mkdir -p "$root"
	case $suite in jammy | noble) components=main,universe ;; *) components=main ;; esac
	echo "fresh.sh: making $root ($suite)"
	debootstrap --variant=minbase --components=$components --include=ca-certificates,python3,python3-venv,python3-pip,git,make \
		"$suite" "$root" ${mirror:+"$mirror"} >"$root.log" 2>&1 || { tail -5 "$root.log" >&2; exit 1; }
	touch "$root/.ready"
fi

# How this machine reaches its packages.
cp -L /etc/resolv.conf /etc/hosts "$root/etc/"
mkdir -p "$root/etc/apt/apt.conf.d" "$root/etc/ssl/certs" "$root/root/.config"
if [ "$(. /etc/os-release; echo "${VERSION_CODENAME:-}")" = "$suite" ]; then
	cp -r /etc/apt/sources.list* "$root/etc/apt/" 2>/dev/null || true
fi
for file in /etc/apt/apt.conf.d/*; do
	case $file in *proxy* | *registry* | *mirror*) cp "$file" "$root/etc/apt/apt.conf.d/" ;; esac
done
[ ! -f /etc/ssl/certs/ca-certificates.crt ] || cp /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/"
[ ! -f /etc/pip.conf ] || cp /etc/pip.conf "$root/etc/"
[ ! -d "$HOME/.config/pip" ] || cp -r "$HOME/.config/pip" "$root/root/.config/"
folders=$({ pip config list 2>/dev/null || true; env | grep -E '^(PIP|UV)_(FIND_LINKS|INDEX_URL|EXTRA_INDEX_URL)='; } | tr "'\" =" '\n\n\n\n' |
	sed 's#^file://##' | grep '^/' | sed 's#/simple/*$##' | sort -u) || true

# The commit, not the working tree: what was forgotten in a commit fails here.
rm -rf "$root/root/holdfast"
git clone --quiet --no-hardlinks "$top" "$root/root/holdfast"

variables=$(env | grep -E '^(PIP|UV)_[A-Z_]+=|^(SSL_CERT_FILE|HTTPS?_PROXY|https?_proxy|no_proxy|HOLDFAST_TEST_[A-Z_]+)=' || true)
export root folders variables
export targets="$*"
exec unshare --mount --propagation private sh -euc '
	mount -t proc proc "$root/proc"
	mount -t sysfs sysfs "$root/sys" 2>/dev/null || mount --rbind /sys "$root/sys"
	mount --rbind /dev "$root/dev"
	mount -t cgroup2 cgroup2 "$root/sys/fs/cgroup" 2>/dev/null || mount --rbind /sys/fs/cgroup "$root/sys/fs/cgroup" || true
	mount -t tmpfs -o mode=755 tmpfs "$root/run"
	for folder in $folders; do
		[ -d "$folder" ] || continue
		mkdir -p "$root$folder"
		mount --bind "$folder" "$root$folder"
	done
	IFS="
"
	exec chroot "$root" /usr/bin/env -i HOME=/root LANG=C.UTF-8 TERM="${TERM:-dumb}" \
		PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin $variables \
		sh -euc "cd /root/holdfast; for target in $targets; do make \$target; done"
'
