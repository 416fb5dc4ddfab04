//! What a process that judges can do besides: nothing.

use std::net::{Ipv4Addr, TcpListener, UdpSocket};

use anyhow::{Result, ensure};
use envoy::json as envoy_json;
use envoy::judged::{Fragment, Kind, Wrapper};
use ir::settings::Edge;
use judge::{Job, Outcome, Runner, Verdict};
use prost::Message;
use serde_json::json;

use crate::fake::Fake;
use crate::{budget, judge, launch};

/// What one that was taken over tries, and what it says of that. Each would do no harm where it is let.
const TRIES: &str = r"
import ctypes, errno, fcntl, mmap, resource, socket, threading
said = []
def tries(name, what):
    try:
        what()
        said.append(name + ' WORKS')
    except BaseException as error:
        said.append('%s %s' % (name, errno.errorcode.get(getattr(error, 'errno', 0), type(error).__name__)))
def udp(what):
    return what(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
def tcp(what):
    return what(socket.socket(socket.AF_INET, socket.SOCK_STREAM))
tries('connect', lambda: tcp(lambda s: s.connect(('127.0.0.1', PORT))))
tries('send', lambda: udp(lambda s: s.sendto(b'x', ('127.0.0.1', PORT))))
tries('sendmsg', lambda: udp(lambda s: s.sendmsg([b'x'], [], 0, ('127.0.0.1', PORT))))
tries('unix', lambda: socket.socket(socket.AF_UNIX).connect('SOCKET'))
tries('bind', lambda: tcp(lambda s: s.bind(('127.0.0.1', 0))))
tries('listen', lambda: tcp(lambda s: s.listen()))
def fork():
    if os.fork() == 0:
        os._exit(0)
tries('fork', fork)
tries('spawn', lambda: os.posix_spawn('/bin/true', ['true'], {}))
tries('kill', lambda: os.kill(os.getppid(), 0))
tries('unlink', lambda: os.unlink('FILE'))
tries('rename', lambda: os.rename('FILE', 'FILE.new'))
tries('mkdir', lambda: os.mkdir('FILE.folder'))
tries('chmod', lambda: os.chmod('FILE', 0o777))
def write():
    with open('FILE', 'r+b') as file:
        file.write(b'x')
tries('write', write)
tries('limits', lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1, 1)))
libc = ctypes.CDLL(None, use_errno=True)
def call(*arguments):
    if libc.syscall(*arguments) < 0:
        raise OSError(ctypes.get_errno(), 'no')
tries('ptrace', lambda: call(101 if os.uname().machine == 'x86_64' else 117, 16, 0, 0, 0))
tries('io_uring', lambda: call(425, 1, ctypes.create_string_buffer(256)))
tries('mount', lambda: call(165 if os.uname().machine == 'x86_64' else 40, b'none', b'/no/such/folder', b'tmpfs', 0, 0))
tries('clone3', lambda: call(435, ctypes.create_string_buffer(88), 1))
tries('environ', lambda: open('/proc/%d/environ' % os.getppid(), 'rb').read())
tries('memory', lambda: open('/proc/%d/mem' % os.getppid(), 'rb'))
tries('cmdline', lambda: open('/proc/self/cmdline', 'rb').read())
tries('read', lambda: open('FILE', 'rb').read())
tries('list', lambda: os.listdir(os.path.dirname(path)))
tries('others', lambda: resource.prlimit(os.getppid(), resource.RLIMIT_CORE))
tries('owner', lambda: fcntl.fcntl(0, fcntl.F_SETOWN, os.getpid()))
tries('signal', lambda: fcntl.fcntl(0, fcntl.F_SETSIG, signal.SIGURG))
tries('owner_ex', lambda: fcntl.fcntl(0, 15, bytes(8)))
tries('owner_ioctl', lambda: fcntl.ioctl(0, 0x8901, bytes(4)))
tries('empty', lambda: os.open('FILE', os.O_RDONLY | os.O_TRUNC))
tries('create', lambda: os.open('FILE.new', os.O_RDONLY | os.O_CREAT))
tries('shared', lambda: mmap.mmap(os.open('FILE', os.O_RDWR), 6))
tries('fifo', lambda: os.open(path, os.O_WRONLY | os.O_NONBLOCK))
tries('ftruncate', lambda: os.ftruncate(0, 0))
tries('times', lambda: os.utime('FILE'))
tries('attribute', lambda: os.setxattr('FILE', 'user.x', b'x'))
tries('fchmodat2', lambda: call(452, -100, b'FILE', 0o777, 0))
tries('openat2', lambda: call(437, -100, b'FILE', ctypes.create_string_buffer(24), 24))
tries('nice', lambda: os.setpriority(os.PRIO_PROCESS, os.getppid(), 0))
started = []
thread = threading.Thread(target=lambda: started.append('threads start'))
thread.start()
thread.join()
privileges = libc.prctl(39, 0, 0, 0, 0)
said += started + ['NoNewPrivs %d' % privileges, 'environment %d' % len(os.environ)]
refuse('; '.join(said))
";

#[tokio::test]
async fn one_that_was_taken_over_reaches_nobody_starts_nothing_and_leaves_nothing() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("file");
    std::fs::write(&file, "before")?;
    let unix = folder.path().join("socket");
    let _unix = std::os::unix::net::UnixListener::bind(&unix)?;
    let tcp = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let port = tcp.local_addr()?.port();
    let udp = UdpSocket::bind((Ipv4Addr::LOCALHOST, port))?;
    let tries = TRIES
        .replace("PORT", &port.to_string())
        .replace("SOCKET", &unix.to_string_lossy())
        .replace("FILE", &file.to_string_lossy());
    let fake = Fake::new(&tries)?;
    let job = Job { bootstrap: Wrapper::new(&Edge::default()).bootstrap(&[]).into(), fragments: 0 };
    let outcome = Runner::start(launch(&fake.path)?)?.run(job).await;
    let Outcome::Refused(said) = &outcome else { anyhow::bail!("{outcome:?}") };
    ensure!(!said.contains("WORKS"), "{said}");
    // As if the kernel did not know the call, but for what it reads.
    ensure!(said.matches(" ENOSYS").count() == 34, "{said}");
    for denied in ["environ", "memory", "cmdline", "read", "list"] {
        ensure!(said.contains(&format!("{denied} EACCES")), "{denied}: {said}");
    }
    for expected in ["threads start", "NoNewPrivs 1"] {
        ensure!(said.contains(expected), "{expected}: {said}");
    }
    // What Python itself adds where there is no locale.
    ensure!(said.contains("environment 0") || said.contains("environment 1"), "{said}");
    ensure!(std::fs::read_to_string(&file)? == "before");
    ensure!(std::fs::read_dir(folder.path())?.count() == 2, "nothing else is there");
    silent(&tcp, &udp)
}

/// Nobody called: whoever might have has ended.
fn silent(tcp: &TcpListener, udp: &UdpSocket) -> Result<()> {
    tcp.set_nonblocking(true)?;
    udp.set_nonblocking(true)?;
    ensure!(tcp.accept().is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock), "somebody connected");
    let heard = udp.recv(&mut [0; 512]);
    ensure!(heard.is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock), "somebody sent a packet");
    Ok(())
}

#[tokio::test]
async fn envoy_judges_names_health_checks_and_low_ports_without_a_packet() -> Result<()> {
    let tcp = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let port = tcp.local_addr()?.port();
    let udp = UdpSocket::bind((Ipv4Addr::LOCALHOST, port))?;
    let address = |host: &str| json!({"socketAddress": {"address": host, "portValue": port}});
    let check = json!({"timeout": "1s", "interval": "1s", "unhealthyThreshold": 1, "healthyThreshold": 1, "noTrafficInterval": "0.001s",
        "httpHealthCheck": {"path": "/"}});
    let cluster = |name: &str, host: &str, kind: &str| {
        let endpoints = json!([{"lbEndpoints": [{"endpoint": {"address": address(host)}}]}]);
        json!({"name": name, "type": kind, "connectTimeout": "1s", "healthChecks": [check],
            "loadAssignment": {"clusterName": name, "endpoints": endpoints},
            "typedDnsResolverConfig": {"name": "envoy.network.dns_resolver.cares", "typedConfig": {
                "@type": "type.googleapis.com/envoy.extensions.network.dns_resolver.cares.v3.CaresDnsResolverConfig",
                "resolvers": [address("127.0.0.1")]}}})
    };
    let listener = json!({"name": "low", "address": {"socketAddress": {"address": "0.0.0.0", "portValue": 80}},
        "filterChains": [{"filters": [{"name": "envoy.filters.network.http_connection_manager", "typedConfig": {
            "@type": "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
            "statPrefix": "low", "routeConfig": {"name": "none"},
            "httpFilters": [{"name": "envoy.filters.http.router", "typedConfig": {
                "@type": "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router"}}]}}]}]});
    let fragment = |kind: Kind, value: &serde_json::Value| -> Result<Fragment> {
        let descriptor = envoy_json::descriptor(kind.message_name())?;
        let message = prost_reflect::DynamicMessage::deserialize(descriptor, value)?;
        Ok(Fragment::new(kind, message.encode_to_vec()))
    };
    let fragments = [
        fragment(Kind::Cluster, &cluster("by-name", "backend.example", "STRICT_DNS"))?,
        fragment(Kind::Cluster, &cluster("by-address", "127.0.0.1", "STATIC"))?,
        fragment(Kind::Listener, &listener)?,
    ];
    let verdicts = judge()?.judge(&fragments, &mut budget()).await;
    ensure!(verdicts.iter().all(|verdict| *verdict == Verdict::Accepted), "{verdicts:?}");
    silent(&tcp, &udp)
}
