#!/bin/sh
# A machine that can install nothing gets podman (with CDI for its GPUs) and an sshd on 127.0.0.1:2222, from the
# Debian packages of kit.sh, under /opt/holdfast-proof. As root, on a machine that is thrown away afterwards.
#   sh box.sh DEBS
set -eu
debs=$1 place=/opt/holdfast-proof
for deb in "$debs"/*.deb; do dpkg-deb -x "$deb" $place; done
libs=$place/lib/x86_64-linux-gnu:$place/usr/lib/x86_64-linux-gnu

# Programs find the libraries that came with them; nobody else does.
for tool in ssh ssh-keygen ssh-keyscan sftp scp podman; do
	printf '#!/bin/sh\nLD_LIBRARY_PATH=%s exec %s/usr/bin/%s "$@"\n' "$libs" "$place" "$tool" > /usr/local/bin/$tool
	chmod +x /usr/local/bin/$tool
done
for tool in conmon crun; do
	printf '#!/bin/sh\nLD_LIBRARY_PATH=%s exec %s/usr/bin/%s "$@"\n' "$libs" "$place" "$tool" > $place/$tool
	chmod +x $place/$tool
done

mkdir -p /etc/containers /etc/cdi /usr/share/containers
cp -r -n $place/etc/containers/. /etc/containers/
cp -r -n $place/usr/share/containers/. /usr/share/containers/
cat > /etc/containers/containers.conf <<C
[engine]
runtime="crun"
cgroup_manager="cgroupfs"
events_logger="file"
conmon_path=["$place/conmon"]
helper_binaries_dir=["$place/usr/lib/podman"]
[engine.runtimes]
crun=["$place/crun"]
[containers]
default_ulimits=["nofile=1024:1024","nproc=1024:1024"]
seccomp_profile="unconfined"
apparmor_profile="unconfined"
C
echo '{"default":[{"type":"insecureAcceptAnything"}]}' > /etc/containers/policy.json
nodes=$(for d in /dev/nvidia[0-9]* /dev/nvidiactl /dev/nvidia-uvm /dev/nvidia-uvm-tools; do
	[ -c "$d" ] && printf '{"path":"%s"},' "$d"; done)
cat > /etc/cdi/nvidia.json <<C
{"cdiVersion":"0.5.0","kind":"nvidia.com/gpu","devices":[{"name":"all","containerEdits":{"deviceNodes":[${nodes%,}],
 "mounts":[{"hostPath":"/usr/local/nvidia","containerPath":"/usr/local/nvidia","options":["ro","nosuid","nodev","rbind"]}]}}]}
C

id sshd >/dev/null 2>&1 || useradd -r -d /run/sshd -s /usr/sbin/nologin sshd
mkdir -p /run/sshd "$HOME/.ssh"
chmod 700 "$HOME/.ssh"
usermod -p '*' "$(id -un)"  # a locked account is refused even with a key
[ -f $place/host_key ] || ssh-keygen -q -t ed25519 -N '' -f $place/host_key
[ -f "$HOME/.ssh/id_ed25519" ] || ssh-keygen -q -t ed25519 -N '' -f "$HOME/.ssh/id_ed25519"
cat "$HOME/.ssh/id_ed25519.pub" >> "$HOME/.ssh/authorized_keys"
chmod 600 "$HOME/.ssh/authorized_keys"
printf 'Port 2222\nListenAddress 127.0.0.1\nHostKey %s/host_key\nUsePAM no\nPidFile %s/pid\nStrictModes no\nSetEnv PATH=%s\n' $place $place "$(dirname "$(command -v python3)"):/usr/local/bin:/usr/bin:/bin" > $place/config
LD_LIBRARY_PATH=$libs $place/usr/sbin/sshd -f $place/config

# The host of the picture in the README: its user's Python is the one with torch, and the digits are there.
id ada >/dev/null 2>&1 || useradd -m -s /bin/bash -p '*' ada
install -d -m 700 -o ada -g ada /home/ada/.ssh
install -m 600 -o ada -g ada "$HOME/.ssh/id_ed25519.pub" /home/ada/.ssh/authorized_keys
mkdir -p /data && cp -r "$debs/../mnist" /data/
printf 'Host gpu1\n  HostName 127.0.0.1\n  Port 2222\n  User ada\n' > "$HOME/.ssh/config"
printf '[127.0.0.1]:2222 %s\n' "$(cut -d' ' -f1,2 $place/host_key.pub)" >> "$HOME/.ssh/known_hosts"
ssh-keygen -lf $place/host_key.pub | cut -d' ' -f2
