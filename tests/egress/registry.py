# Writes registries of npm, PyPI and crates.io, and a git repository, as files that a server only has to send.
# Arguments: the directory, and the origin of the server.
import base64, hashlib, io, json, os, subprocess, sys, tarfile, zipfile

root, origin = sys.argv[1:]


def write(path, data):
    path = os.path.join(root, path)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, 'wb') as file:
        file.write(data.encode() if isinstance(data, str) else data)


def archive(directory, files):
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode='w:gz') as tar:
        for name, text in files.items():
            entry = tarfile.TarInfo(f'{directory}/{name}')
            entry.size = len(text)
            tar.addfile(entry, io.BytesIO(text.encode()))
    return packed.getvalue()


def npm(name, needs, code):
    package = {'name': name, 'version': '1.0.0', 'main': 'index.js', 'dependencies': {need: '^1.0.0' for need in needs}}
    packed = archive('package', {'package.json': json.dumps(package), 'index.js': code})
    write(f'npm/{name}/-/{name}-1.0.0.tgz', packed)
    integrity = 'sha512-' + base64.b64encode(hashlib.sha512(packed).digest()).decode()
    package['dist'] = {'tarball': f'{origin}/npm/{name}/-/{name}-1.0.0.tgz', 'integrity': integrity}
    about = {'name': name, 'dist-tags': {'latest': '1.0.0'}, 'versions': {'1.0.0': package}}
    write(f'npm/{name}/index', json.dumps(about))


def pypi(name, needs, code):
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, 'w') as wheel:
        about = f'{name}-1.0.0.dist-info'
        wheel.writestr(f'{name}.py', code)
        wheel.writestr(f'{about}/METADATA', f'Metadata-Version: 2.1\nName: {name}\nVersion: 1.0.0\n'
                       + ''.join(f'Requires-Dist: {need}\n' for need in needs))
        wheel.writestr(f'{about}/WHEEL', 'Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n')
        wheel.writestr(f'{about}/RECORD', '')
    file = f'{name}-1.0.0-py3-none-any.whl'
    write(f'packages/{file}', packed.getvalue())
    digest = hashlib.sha256(packed.getvalue()).hexdigest()
    write(f'simple/{name}/index', f'<!DOCTYPE html><a href="/packages/{file}#sha256={digest}">{file}</a>')


def crates(name, needs, code):
    manifest = f'[package]\nname = "{name}"\nversion = "1.0.0"\nedition = "2021"\n[dependencies]\n'
    manifest += ''.join(f'{need} = "1"\n' for need in needs)
    packed = archive(f'{name}-1.0.0', {'Cargo.toml': manifest, 'src/lib.rs': code})
    write(f'crates/{name}/1.0.0/download', packed)
    need = {'req': '^1', 'features': [], 'optional': False, 'default_features': True, 'target': None, 'kind': 'normal'}
    about = {'name': name, 'vers': '1.0.0', 'deps': [dict(need, name=other) for other in needs],
             'cksum': hashlib.sha256(packed).hexdigest(), 'features': {}, 'yanked': False}
    write(f'index/{name[:2]}/{name[2:4]}/{name}', json.dumps(about) + '\n')


npm('colder', ['warmer'], 'module.exports = "colder and " + require("warmer")')
npm('warmer', [], 'module.exports = "warmer"')
pypi('colder', ['warmer'], 'import warmer\nwords = "colder and " + warmer.words\n')
pypi('warmer', [], 'words = "warmer"\n')
crates('colder', ['warmer'], 'pub fn words() -> String { format!("colder and {}", warmer::words()) }\n')
crates('warmer', [], 'pub fn words() -> &\'static str { "warmer" }\n')
write('index/config.json', json.dumps({'dl': f'{origin}/crates'}))

work = os.path.join(root, 'work')
identity = {f'GIT_{who}_{what}': 'a@example' for who in ('AUTHOR', 'COMMITTER') for what in ('NAME', 'EMAIL')}
environment = dict(os.environ, GIT_CONFIG_GLOBAL=os.devnull, **identity)
write('work/words', 'colder and warmer\n')
for command in [['init', '-q', '-b', 'main', work], ['-C', work, 'add', '.'], ['-C', work, 'commit', '-q', '-m', 'words'],
                ['clone', '-q', '--bare', work, os.path.join(root, 'git/a.git')],
                ['-C', os.path.join(root, 'git/a.git'), 'update-server-info']]:
    subprocess.run(['git', *command], check=True, env=environment)
