# Ways to send the value of a granted variable to a granted origin, in encodings and parts of a request.
# Before this text, the test puts ORIGIN, the granted origin.
# For each case it prints its name, the encoded value, and what the program saw.
import base64, http.client, os, urllib.parse

SECRET = os.environ['GRANTED_TOKEN']
HOST = ORIGIN.removeprefix('http://')
PROXY = os.environ['HTTP_PROXY'].removeprefix('http://')


def percent(text, form='%{:02x}'):
    return ''.join(form.format(byte) for byte in text.encode())


def in_base64(before, after='', code=base64.b64encode):
    return code((before + SECRET + after).encode()).decode()


ENCODINGS = {
    'as it is': SECRET,
    'backwards': SECRET[::-1],
    'with percent signs': percent(SECRET),
    'with percent signs, capitals': percent(SECRET, '%{:02X}'),
    'with some percent signs': SECRET.replace('-', '%2d').replace('o', '%6F'),
    'backwards with percent signs': percent(SECRET[::-1]),
    'hexadecimal': SECRET.encode().hex(),
    'hexadecimal, capitals': SECRET.encode().hex().upper(),
    'Base64': in_base64(''),
    'Base64 of the second byte on': in_base64('a'),
    'Base64 of the third byte on': in_base64('ab'),
    'Base64 with a user': in_base64('user:'),
    'Base64 in the middle': in_base64('some text before ', ' and after'),
    'Base64 for addresses': in_base64('??', '', base64.urlsafe_b64encode),
    'Base64 with percent signs': urllib.parse.quote(in_base64(''), safe=''),
    'as JSON': '{"a":"' + SECRET + '"}',
    'in a text': 'x' * 100 + SECRET + 'x' * 100,
}


def request(method, path, headers, body):
    connection = http.client.HTTPConnection(PROXY, timeout=20)
    connection.putrequest(method, ORIGIN + path, skip_host=True, skip_accept_encoding=True)
    for name, value in [('Host', HOST), *headers]:
        connection.putheader(name, value)
    connection.endheaders()
    for part in body:
        connection.send(part)
    return str(connection.getresponse().status)


def chunks(data, size):
    parts = [data[at:at + size] for at in range(0, len(data), size)]
    return [b'%x\r\n%s\r\n' % (len(part), part) for part in parts] + [b'0\r\n\r\n']


def header(name, value):
    return lambda: request('GET', '/', [(name, value)], [])


def body(data, size=None):
    if size:
        return lambda: request('POST', '/', [('Transfer-Encoding', 'chunked')], chunks(data, size))
    return lambda: request('POST', '/', [('Content-Length', str(len(data)))], [data])


cases = []
for name, text in ENCODINGS.items():
    safe = urllib.parse.quote(text, safe='%')
    cases += [(f'{name}, in the path', text, lambda safe=safe: request('GET', '/a/' + safe, [], [])),
              (f'{name}, in the query', text, lambda safe=safe: request('GET', '/?a=' + safe, [], [])),
              (f'{name}, in a header', text, header('X-A', text)),
              (f'{name}, in a body', text, body(text.encode())),
              (f'{name}, in a body of small chunks', text, body(b'before ' + text.encode() + b' after', 3))]
for name, how in [
    ('as authorization', header('Authorization', 'Bearer ' + SECRET)),
    ('as basic authorization', header('Authorization', 'Basic ' + in_base64('someone:'))),
    ('as a cookie', header('Cookie', 'a=b; c=' + SECRET)),
    ('as the name of a header', header(SECRET, 'a')),
    ('as an agent', header('User-Agent', 'a/1 (' + SECRET + ')')),
    ('as a type', header('Content-Type', 'multipart/form-data; boundary=' + SECRET)),
    ('as a method', lambda: request(SECRET, '/', [], [])),
    ('in single bytes', body(SECRET.encode(), 1)),
    ('after much text', body(b'x' * 300000 + SECRET.encode(), 65536)),
    ('before much text', body(SECRET.encode() + b'x' * 300000)),
    ('in a form', body(urllib.parse.urlencode({'a': SECRET}).encode())),
    ('in parts', body(b'--b\r\nContent-Disposition: form-data; name="a"\r\n\r\n' + SECRET.encode() + b'\r\n--b--\r\n')),
]:
    cases.append((name, SECRET, how))

for name, text, how in cases:
    try:
        seen = how()
    except Exception as error:
        seen = f'failed: {error}'
    print(f'{name}\t{text}\t{" ".join(seen.split())}', flush=True)
# Without the value, a request arrives.
print('nothing secret', 'a harmless value', header('X-A', 'a harmless value')(), sep='\t')
