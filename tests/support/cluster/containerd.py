"""containerd for the one real node: its configuration, and the images it is given."""

import shutil
from pathlib import Path

from tests.support.cluster.directory import ClusterError, Directory
from tests.support.cluster.images import PAUSE, Image, architecture, archive
from tests.support.cluster.machine import run
from tests.support.cluster.processes import Program

CNI_PLUGINS = Path("/usr/lib/cni")
SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
NAMESPACE = "k8s.io"
PACKAGES = {"runc": "runc", "ip": "iproute2"}


class Containerd:
    def __init__(self, directory: Directory, bin_dir: Path) -> None:
        self._directory = directory
        self._bin_dir = bin_dir
        self.socket = directory / "run" / "containerd.sock"

    @property
    def path(self) -> str:
        """Where its programs are: the shim beside it, runc from the system."""
        return f"{self._bin_dir}:{SYSTEM_PATH}"

    def program(self) -> Program:
        """Writes the configuration. Raises ClusterError where a package is missing."""
        require_packages()
        self.socket.parent.mkdir(mode=0o700, exist_ok=True)
        (self._directory / "cdi").mkdir(exist_ok=True)
        configuration = self._directory / "containerd.toml"
        configuration.write_text(self._configuration())
        command = [self._bin_dir / "containerd", "--config", configuration]
        return Program("containerd", command, self._is_serving, {"PATH": self.path})

    def load(self, image: Image) -> None:
        """Make the image and import it; pods name it with `imagePullPolicy: Never`, or with any tag
        but `latest`."""
        packed = self._directory / "image.tar"
        packed.write_bytes(archive(image))
        self.take(packed)
        packed.unlink()

    def take(self, packed: Path) -> None:
        """Import an archive of an image, with the names that are in it."""
        self.ctr("images", "import", "--local", "--snapshotter", "native", packed)

    def images(self) -> list[str]:
        return self.ctr("images", "list", "--quiet").split()

    def ctr(self, *words: str | Path) -> str:
        return run(
            self._bin_dir / "ctr", "--address", self.socket, "--namespace", NAMESPACE, *words
        )

    def _is_serving(self) -> bool:
        try:
            self.ctr("version")
        except ClusterError:
            return False
        return True

    def _configuration(self) -> str:
        """Everything under the rig's directory. Root without CAP_SYS_RESOURCE cannot lower an OOM
        score, hence `restrict_oom_score_adj`; the native snapshotter needs nothing of the
        kernel."""
        at, runc = self._directory.path, shutil.which("runc", path=SYSTEM_PATH)
        return f"""
version = 3
root = "{at}/containerd/root"
state = "{at}/containerd/state"
[grpc]
address = "{self.socket}"
[plugins.'io.containerd.internal.v1.opt']
path = "{at}/containerd/opt"
[plugins.'io.containerd.cri.v1.images']
snapshotter = "native"
[plugins.'io.containerd.cri.v1.images'.pinned_images]
sandbox = "{PAUSE.name}"
[plugins.'io.containerd.cri.v1.runtime']
disable_apparmor = true
restrict_oom_score_adj = true
netns_mounts_under_state_dir = true
cdi_spec_dirs = ["{at}/cdi"]
[plugins.'io.containerd.cri.v1.runtime'.cni]
bin_dirs = ["{CNI_PLUGINS}"]
conf_dir = "{at}/cni"
[plugins.'io.containerd.cri.v1.runtime'.containerd]
default_runtime_name = "runc"
[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]
BinaryName = "{runc}"
Root = "{at}/runc"
SystemdCgroup = false
[plugins.'io.containerd.nri.v1.nri']
disable = false
socket_path = "{at}/run/nri.sock"
plugin_path = "{at}/nri/plugins"
plugin_config_path = "{at}/nri/conf.d"
[plugins.'io.containerd.transfer.v1.local']
unpack_config = [{{platform = "linux/{architecture()}", snapshotter = "native"}}]
"""


def require_packages() -> None:
    missing = [
        package
        for program, package in PACKAGES.items()
        if not shutil.which(program, path=SYSTEM_PATH)
    ]
    if not (CNI_PLUGINS / "bridge").exists():
        missing.append("containernetworking-plugins")
    if not Path("/bin/busybox").exists():
        missing.append("busybox-static")
    if missing:
        raise ClusterError(
            f"the real node needs programs of the system: apt-get install {' '.join(missing)}"
        )
