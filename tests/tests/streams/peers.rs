//! Programs that others wrote, on both sides of the proxy: a DNS server, a database, OpenSSL, curl.

use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context, Result, ensure};
use portcullis_tests::certificates::{Certificate, KeyKind};
use portcullis_tests::echo::Echo;
use portcullis_tests::process::Process;
use portcullis_tests::wait::{TIMEOUT, eventually};
use portcullis_tests::{objects, ports};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::process::Command;

use super::world::{Server, World, listener, route, service, service_at, tls_to};

/// Runs a program to its end, with this as its input; what it prints, errors included.
async fn said(command: &mut Command, input: &str) -> Result<String> {
    let name = command.as_std().get_program().display().to_string();
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().context(name)?;
    // One that ends before does not read it.
    let _ = child.stdin.take().context("an input")?.write_all(input.as_bytes()).await;
    let output = child.wait_with_output().await?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr))
}

#[tokio::test(flavor = "multi_thread")]
async fn names_are_looked_up_over_udp_and_over_tcp_where_an_answer_is_too_long() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let own = ports::free_port()?;
    let texts = (0..8).map(|number| format!("--txt-record=long.example,{}", format!("{number}").repeat(200)));
    let port = own.to_string();
    let arguments =
        ["--keep-in-foreground", "--conf-file=/dev/null", "--no-resolv", "--no-hosts", "--listen-address=127.0.0.1"];
    let arguments = arguments.into_iter().map(str::to_owned).chain(texts).chain([
        "--bind-interfaces".to_owned(),
        "--edns-packet-max=4096".to_owned(),
        format!("--port={port}"),
        "--address=/short.example/192.0.2.7".to_owned(),
        "--pid-file".to_owned(),
        // To become somebody else takes rights that a container may not have.
        "--user=root".to_owned(),
    ]);
    let mut server = Process::start("dnsmasq", Path::new("/usr/sbin/dnsmasq"), arguments, folder.path().join("log"))?;
    let at = SocketAddr::from((Ipv4Addr::LOCALHOST, own));
    let listens = async || {
        TcpStream::connect(at).await?;
        Ok(())
    };
    server.wait_until(listens).await?;

    let port = ports::free_port()?;
    let listeners = [listener("dns", port, "UDP"), listener("dns-tcp", port, "TCP")];
    let files = [
        ("services.yaml", service_at("udp", "UDP", at) + &service_at("tcp", "TCP", at)),
        ("udp.yaml", route("UDPRoute", "r", "dns", "", &[("udp", 1)])),
        ("tcp.yaml", route("TCPRoute", "r", "dns-tcp", "", &[("tcp", 1)])),
    ];
    let world = World::start(&listeners, &files).await?;
    let asked = async |question: &[&str]| {
        let number = port.to_string();
        let server = ["@127.0.0.1", "-p", &number, "+tries=1", "+time=10"];
        said(Command::new("dig").args(server).args(question), "").await
    };
    let answered = eventually(TIMEOUT, async || {
        let answer = asked(&["short.example", "A"]).await?;
        ensure!(answer.contains("192.0.2.7") && answer.contains("(UDP)"), "{answer}");
        Ok(())
    });
    answered.await.with_context(|| world.portcullis.log_tail())?;
    let answered = eventually(TIMEOUT, async || {
        let answer = asked(&["+tcp", "short.example", "A"]).await?;
        ensure!(answer.contains("192.0.2.7") && answer.contains("(TCP)"), "{answer}");
        Ok(())
    });
    answered.await.with_context(|| world.portcullis.log_tail())?;
    // In 1,232 bytes, which is what clients ask for, there is no room for it: the client asks again over TCP.
    let answer = asked(&["+bufsize=1232", "long.example", "TXT"]).await?;
    ensure!(answer.contains("Truncated, retrying in TCP") && answer.contains("(TCP)"), "{answer}");
    ensure!((0..8).all(|number| answer.contains(&format!("{number}").repeat(200))), "{answer}");
    let answer = asked(&["+bufsize=4096", "long.example", "TXT"]).await?;
    ensure!(answer.contains("(UDP)") && answer.contains(&"7".repeat(200)), "a long datagram: {answer}");
    server.check_alive()?;
    world.end().await
}

/// A database in a folder of its own.
struct Postgres {
    process: Process,
    port: u16,
    _folder: tempfile::TempDir,
}

impl Postgres {
    /// Where Debian has its programs.
    fn program(name: &str) -> Result<PathBuf> {
        let versions = std::fs::read_dir("/usr/lib/postgresql").context("no PostgreSQL: install postgresql")?;
        let found =
            versions.filter_map(|entry| Some(entry.ok()?.path().join("bin").join(name))).find(|path| path.exists());
        found.with_context(|| format!("no {name} below /usr/lib/postgresql: install postgresql"))
    }

    async fn start() -> Result<Self> {
        let folder = tempfile::tempdir()?;
        // It refuses to run as root, and has a user of its own for that.
        let own = said(Command::new("id").arg("-u"), "").await?;
        let mut before = Vec::new();
        if own.trim() == "0" {
            let id = |flag: &'static str| async move {
                let id = said(Command::new("id").args([flag, "postgres"]), "").await?;
                id.trim().parse::<u32>().context("no user postgres: install postgresql")
            };
            let (user, group) = (id("-u").await?, id("-g").await?);
            chown(folder.path(), Some(user), Some(group))?;
            before = vec![format!("--reuid={user}"), format!("--regid={group}"), "--clear-groups".to_owned()];
        }
        let data = folder.path().join("data").display().to_string();
        let command = |program: &Path| [&before[..], &[program.display().to_string()]].concat();
        let mut initdb = Command::new("setpriv");
        initdb
            .args(command(&Self::program("initdb")?))
            .args(["--no-sync", "--auth=trust", "--username=postgres", "--encoding=UTF8", "--locale=C", "-D", &data])
            .current_dir(folder.path());
        let made = said(&mut initdb, "").await?;
        ensure!(made.contains("Success"), "{made}");
        let port = ports::free_port()?;
        let arguments = ["-D", &data, "-h", "127.0.0.1", "-k", "", "-F", "-p"].map(str::to_owned);
        let arguments = command(&Self::program("postgres")?).into_iter().chain(arguments).chain([port.to_string()]);
        let log = tempfile::NamedTempFile::new_in(folder.path())?.keep()?.1;
        let mut process = Process::start("postgres", Path::new("setpriv"), arguments, log)?.with_children();
        process
            .wait_until(async || {
                let answer = said(&mut psql(port, "select 'ready'"), "").await?;
                ensure!(answer.trim() == "ready", "{answer}");
                Ok(())
            })
            .await?;
        Ok(Self { process, port, _folder: folder })
    }
}

/// A client that asks once, or what stands in its input if it is told nothing.
fn psql(port: u16, query: &str) -> Command {
    let mut command = Command::new("psql");
    command.args([
        "-X",
        "-q",
        "-A",
        "-t",
        "-h",
        "127.0.0.1",
        "-U",
        "postgres",
        "-d",
        "postgres",
        "-p",
        &port.to_string(),
    ]);
    if !query.is_empty() {
        command.args(["-c", query]);
    }
    command.kill_on_drop(true);
    command
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_is_asked_and_a_transaction_outlives_the_route_that_led_to_it() -> Result<()> {
    let mut database = Postgres::start().await?;
    let at = SocketAddr::from((Ipv4Addr::LOCALHOST, database.port));
    let port = ports::free_port()?;
    let files = [
        ("services.yaml", service_at("database", "TCP", at)),
        ("route.yaml", route("TCPRoute", "r", "sql", "", &[("database", 1)])),
    ];
    let world = World::start(&[listener("sql", port, "TCP")], &files).await?;
    let asked = eventually(TIMEOUT, async || {
        let answer = said(&mut psql(port, "select 6 * 7"), "").await?;
        ensure!(answer.trim() == "42", "{answer}");
        Ok(())
    });
    asked.await.with_context(|| world.portcullis.log_tail())?;
    // Ten megabytes each way.
    let sum =
        "select sum(length(line)) from (select repeat('x', 1000) || n as line from generate_series(1, 10000) n) lines";
    let length = said(&mut psql(port, sum), "").await?;
    let rows = said(&mut psql(port, "select repeat('x', 1000) || n from generate_series(1, 10000) n"), "").await?;
    let sent: usize = rows.lines().map(str::len).sum();
    ensure!(length.trim() == sent.to_string(), "{length} bytes were sent, and {sent} came");
    let copied = format!("create table copied (line text);\ncopy copied from stdin;\n{rows}\\.\n");
    let copied = said(&mut psql(port, ""), &(copied + "select sum(length(line)) from copied;\n")).await?;
    ensure!(copied.trim() == length.trim(), "{copied}");

    let mut session = psql(port, "").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    let (mut says, hears) = (session.stdin.take().context("an input")?, session.stdout.take().context("an output")?);
    let mut hears = BufReader::new(hears).lines();
    says.write_all(b"begin; create table kept (n int); insert into kept values (1); select 'open';\n").await?;
    ensure!(hears.next_line().await?.as_deref() == Some("open"));
    world.portcullis.write("route.yaml", &route("TCPRoute", "r", "sql", "", &[("missing", 1)]))?;
    world.closes(port).await?;
    let refused = said(&mut psql(port, "select 1"), "").await?;
    ensure!(refused.contains("server closed the connection"), "{refused}");
    says.write_all(b"insert into kept values (2); commit; select count(*) from kept;\n").await?;
    ensure!(hears.next_line().await?.as_deref() == Some("2"), "the transaction is gone");
    drop(says);
    ensure!(session.wait().await?.success());
    database.process.check_alive()?;
    world.end().await
}

/// What `openssl s_client` prints of a server that is asked for a name, if for one.
async fn s_client(port: u16, name: Option<&str>, version: &str) -> Result<String> {
    let at = format!("127.0.0.1:{port}");
    let name = name.map_or_else(|| vec!["-noservername"], |name| vec!["-servername", name]);
    said(Command::new("openssl").args(["s_client", "-connect", &at, version]).args(name), "").await
}

/// Connects to a port, and sends on what comes byte by byte.
async fn slowly(to: u16) -> Result<u16> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let port = listener.local_addr()?.port();
    tokio::spawn(async move {
        let (mut client, _) = listener.accept().await?;
        let mut server = TcpStream::connect((Ipv4Addr::LOCALHOST, to)).await?;
        server.set_nodelay(true)?;
        // No ClientHello is as long.
        let mut hello = vec![0; 65_536];
        let length = client.read(&mut hello).await?;
        for byte in &hello[..length] {
            server.write_all(&[*byte]).await?;
            server.flush().await?;
            tokio::task::yield_now().await;
        }
        tokio::io::copy_bidirectional(&mut client, &mut server).await
    });
    Ok(port)
}

#[tokio::test(flavor = "multi_thread")]
async fn openssl_and_curl_reach_who_they_name_and_nobody_without_a_name() -> Result<()> {
    let own = |name: &str| Certificate::new(&[name.to_owned()], KeyKind::Ecdsa);
    let (through, ended, web) = (own("through.example")?, own("ends.example")?, own("web.example")?);
    let secure = Server::tcp("secure", Some(through.server(None)?)).await?;
    let plain = Server::tcp("plain", None).await?;
    let echo = Echo::start("web", (Ipv4Addr::LOCALHOST, 0).into()).await?;
    let port = ports::free_port()?;
    let ends = |name: &str, protocol: &str| {
        let host = format!("hostname: {name}.example, port: {port}, protocol: {protocol}");
        format!("{{name: {name}, {host}, tls: {{certificateRefs: [{{name: {name}}}]}}}}")
    };
    let listeners = [
        format!("{{name: through, port: {port}, protocol: TLS, tls: {{mode: Passthrough}}}}"),
        ends("ends", "TLS"),
        ends("web", "HTTPS"),
    ];
    let rules = "  - backendRefs: [{name: web, port: 80}]";
    let http = objects::Route { name: "web", hosts: "web.example", rules, ..Default::default() };
    let secrets =
        objects::secret("ends", &ended.certificate, &ended.key) + &objects::secret("web", &web.certificate, &web.key);
    let services =
        service("secure", "TCP", &secure) + &service("plain", "TCP", &plain) + &objects::service("web", &echo);
    let files = [
        ("services.yaml", services),
        ("secrets.yaml", secrets),
        ("http.yaml", http.to_string()),
        ("through.yaml", route("TLSRoute", "through", "through", "hostnames: [through.example]", &[("secure", 1)])),
        ("ends.yaml", route("TLSRoute", "ends", "ends", "hostnames: [ends.example]", &[("plain", 1)])),
    ];
    let world = World::start(&listeners, &files).await?;
    let is_there = eventually(TIMEOUT, async || tls_to(port, "ends.example", &ended).await);
    is_there.await.with_context(|| world.portcullis.log_tail())?;
    for version in ["-tls1_2", "-tls1_3"] {
        for (name, certificate) in [("through.example", &through), ("ends.example", &ended), ("web.example", &web)] {
            let shown = s_client(port, Some(name), version).await?;
            ensure!(shown.contains(certificate.certificate.trim()), "{name} {version}: {shown}");
        }
        let long = format!("{}.{}.{}.example", "a".repeat(63), "b".repeat(63), "c".repeat(63));
        for name in [None, Some("other.example"), Some(&long), Some("not a name \u{e9}")] {
            let shown = s_client(port, name, version).await?;
            ensure!(!shown.contains("BEGIN CERTIFICATE"), "{name:?} {version}: {shown}");
        }
    }
    // A ClientHello in as many pieces as it has bytes.
    let (_, by) = tls_to(slowly(port).await?, "ends.example", &ended).await?;
    ensure!(by == "plain", "{by}");
    let folder = tempfile::tempdir()?;
    let authority = folder.path().join("ca");
    std::fs::write(&authority, &web.certificate)?;
    for (flag, version) in [("--http1.1", "1.1"), ("--http2", "2")] {
        let asked = Command::new("curl")
            .args(["--silent", "--show-error", flag, "--resolve", &format!("web.example:{port}:127.0.0.1")])
            .args(["--write-out", "\n%{http_code} %{http_version}", "--data", "sent", "--cacert"])
            .arg(&authority)
            .arg(format!("https://web.example:{port}/path"))
            .output()
            .await?;
        let answer = String::from_utf8_lossy(&asked.stdout).into_owned();
        ensure!(answer.ends_with(&format!("200 {version}")), "{answer} {}", String::from_utf8_lossy(&asked.stderr));
    }
    world.end().await
}
