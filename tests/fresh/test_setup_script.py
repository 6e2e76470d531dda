"""The file of ``computetarget setup-script``, carried out by Debian's cloud-init in a fresh root.

What cannot run there is listed in docs/getting-a-machine.md: a login manager, services, drivers, NVIDIA's repository.
"""

from __future__ import annotations

import os
import subprocess
from shlex import quote
from typing import TYPE_CHECKING, Any

import pytest

from fresh.test_fresh_root import CHECKOUT, NO_ROOT_COULD_BE_MADE, can_make_root  # noqa: F401 - a fixture
from holdfast.engine.machines import cloud_config

if TYPE_CHECKING:
    from pathlib import Path

# The modules of cloud-init for the keys of the file, by stage. The others would change the machine around the root.
MODULES = """\
datasource_list: [NoCloud]
network: {config: disabled}
cloud_init_modules: [users-groups]
cloud_config_modules: [set-passwords, runcmd]
cloud_final_modules: [package-update-upgrade-install, scripts-user, power-state-change]
"""
# Services are not started: they would see the network of the machine around the root.
BEGIN = f"""
printf '#!/bin/sh\\nexit 101\\n' > /usr/sbin/policy-rc.d
chmod +x /usr/sbin/policy-rc.d
export DEBIAN_FRONTEND=noninteractive
apt-get update -q >/dev/null
apt-get install -qy --no-install-recommends cloud-init openssh-server openssh-client >/dev/null 2>&1
mkdir -p /var/lib/cloud/seed/nocloud /root/seen
cat > /etc/cloud/cloud.cfg.d/99-test.cfg <<'END'
{MODULES}END
echo 'instance-id: first-boot' > /var/lib/cloud/seed/nocloud/meta-data
"""
# A program that cannot work in a root writes down how it was called.
STAND_IN = """
printf '#!/bin/sh\\necho {name} "$@" >> /root/seen/calls\\n' > /usr/local/sbin/{name}
chmod +x /usr/local/sbin/{name}
"""
STAGES = """
cloud-init schema --config-file /var/lib/cloud/seed/nocloud/user-data
cloud-init init --local >/dev/null 2>&1
cloud-init init >/dev/null 2>&1
cloud-init modules --mode=config >/dev/null 2>&1 || echo 'config failed'
cloud-init modules --mode=final >/root/seen/final 2>&1 || echo 'final failed'
"""
LOGIN = """
mkdir -p /run/sshd
ssh -i /root/seen/key -o StrictHostKeyChecking=no -o BatchMode=yes -o ProxyCommand='/usr/sbin/sshd -i' ada@box '
    id -nG; python3 -m venv made && made/bin/python -V
    docker --version; git --version; rsync --version | head -n 1' 2>/dev/null
grep -r '^PasswordAuthentication' /etc/ssh/sshd_config /etc/ssh/sshd_config.d
passwd -S ada
"""
NVIDIA = "https://nvidia.github.io/libnvidia-container"
PRINTED_LIST = rf"deb {NVIDIA}/stable/deb/$(ARCH) /\n#deb {NVIDIA}/experimental/deb/$(ARCH) /\n"
# NVIDIA's addresses, with a key of our own.
CURL = f"""
gpg --batch --quiet --passphrase '' --quick-generate-key nvidia@example.org
cat > /usr/local/sbin/curl <<'END'
#!/bin/sh
case "$*" in
  "-fsSL {NVIDIA}/gpgkey") exec gpg --armor --export nvidia@example.org ;;
  "-fsSL {NVIDIA}/stable/deb/nvidia-container-toolkit.list") printf '{PRINTED_LIST}' ;;
  *) exit 22 ;;
esac
END
chmod +x /usr/local/sbin/curl
"""


def carry_out(*parts: str) -> str:
    """Run shell lines in a fresh root, with a host name of its own; their output."""
    script = "\n".join(("set -eu", *parts))
    command = ["sh", str(CHECKOUT / "tools" / "fresh.sh"), "--command", f"unshare --uts sh -c {quote(script)}"]
    env = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "MAKE", "MFLAGS"))}
    pipes: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    done = subprocess.run(command, check=False, text=True, env=env, **pipes)
    if done.returncode == NO_ROOT_COULD_BE_MADE:
        pytest.skip(f"NOT TESTED: no fresh root could be made: {done.stdout[-500:]}")
    assert done.returncode == 0, done.stdout
    return str(done.stdout)


@pytest.fixture
def key(tmp_path: Path) -> tuple[str, str]:
    """Both halves of a key pair."""
    path = tmp_path / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "ada's laptop", "-f", path], check=True)
    return path.read_text(), path.with_suffix(".pub").read_text().strip()


def user_data(text: str) -> str:
    return f"cat > /var/lib/cloud/seed/nocloud/user-data <<'END_OF_FILE'\n{text}END_OF_FILE\n"


@pytest.mark.timeout(1500)
@pytest.mark.usefixtures("can_make_root")
def test_first_boot_makes_a_user_who_can_log_in_and_has_what_runs_need(key: tuple[str, str]) -> None:
    private, public = key
    place = f"install -m 600 /dev/null /root/seen/key\ncat > /root/seen/key <<'END'\n{private}END\n"
    text = cloud_config.text("ada", public, gpu=False)
    calls = "cat /root/seen/calls\n"
    output = carry_out(BEGIN, STAND_IN.format(name="loginctl"), place, user_data(text), STAGES, LOGIN, calls)
    assert "failed" not in output, output
    assert "Valid cloud-config" in output, output
    login = output[output.index("Valid cloud-config") :].splitlines()[1:]
    assert login[0].split() == ["ada", "docker"], output
    for line, program in zip(login[1:5], ("Python 3", "Docker version", "git version", "rsync  version"), strict=True):
        assert line.startswith(program), output
    assert login[5].endswith("PasswordAuthentication no"), output
    assert login[6].startswith("ada L "), output
    assert login[7:] == ["loginctl enable-linger ada"], output


@pytest.mark.timeout(1500)
@pytest.mark.usefixtures("can_make_root")
def test_steps_for_a_gpu_end_at_the_first_failure_and_before_the_restart(key: tuple[str, str]) -> None:
    """NVIDIA's repository cannot be had here: everything before its packages runs, and nothing after."""
    text = cloud_config.text("ada", key[1], gpu=True)
    stand_ins = [STAND_IN.format(name=name) for name in ("loginctl", "ubuntu-drivers", "nvidia-ctk", "shutdown")]
    looked = """
echo keys: $(gpg --show-keys --with-colons /usr/share/keyrings/nvidia-container-toolkit-keyring.gpg | grep -c ^pub)
apt-get update --print-uris | grep nvidia
cat /etc/apt/sources.list.d/nvidia-container-toolkit.list
cat /root/seen/calls
test -e /var/lib/holdfast-gpu-ready || echo 'not ready'
"""
    gpg = "apt-get install -qy --no-install-recommends gnupg >/dev/null 2>&1\n"
    output = carry_out(BEGIN, gpg, CURL, *stand_ins, user_data(text), STAGES, looked)
    assert "Valid cloud-config" in output, output
    assert "final failed" in output, output
    assert "keys: 1\n" in output, output
    assert f"'{NVIDIA}/stable/deb/amd64/InRelease'" in output, "apt reads the line"
    keyring = "/usr/share/keyrings/nvidia-container-toolkit-keyring.gpg"
    assert f"\ndeb [signed-by={keyring}] {NVIDIA}/stable/deb/" in output, output
    assert output.endswith("loginctl enable-linger ada\nubuntu-drivers install\nnot ready\n"), output
