import { execFile, execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import {
  chmodSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { afterEach, describe, expect, test } from '@jest/globals';
import { findKnownArchive } from '../../tools/supervisor/bootstrap/mongod-archives.mjs';
import { NODE_PACKAGE, NODE_VERSION, PNPM } from '../../tools/supervisor/bootstrap/paths.mjs';
import {
  downloadVerified,
  fetchPublishedDigest,
  UntrustedDownloadError,
} from '../../tools/supervisor/bootstrap/verified-download.mjs';
import { ROOT } from '../support/first-run/test-home.ts';
import { createTemporaryFolder } from '../support/temporary-folder.ts';

const BOOTSTRAP = join(ROOT, 'tools/supervisor/bootstrap');

/** A file server of a test's own. */
interface FileServer {
  url: string;
  /** Paths that were requested. */
  requestedPaths: string[];
  stop(): Promise<void>;
}

/** Starts one; `contentFor` returns the content of a path, or undefined when there is none. */
async function startFileServer(
  contentFor: (path: string) => Buffer | string | undefined,
): Promise<FileServer> {
  const requestedPaths: string[] = [];
  const server = createServer((request, response) => {
    const path = request.url ?? '';
    requestedPaths.push(path);
    const content = contentFor(path);
    response.writeHead(content === undefined ? 404 : 200).end(content);
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    requestedPaths,
    stop: async () => {
      server.closeAllConnections();
      await once(server.close(), 'close');
    },
  };
}

let server: FileServer | undefined;
afterEach(async () => {
  await server?.stop();
  server = undefined;
});

/** An archive like the vendor's, whose mongod leaves a trace when it is run. */
function createArchive(trace: string): Buffer {
  const folder = createTemporaryFolder();
  mkdirSync(join(folder, 'mongodb/bin'), { recursive: true });
  const mongod = join(folder, 'mongodb/bin/mongod');
  writeFileSync(mongod, `#!/bin/sh\necho run >> '${trace}'\necho 'db version v8.0.11'\n`);
  chmodSync(mongod, 0o755);
  execFileSync('tar', ['-czf', 'archive.tgz', 'mongodb'], { cwd: folder });
  return readFileSync(join(folder, 'archive.tgz'));
}

/** A cache that contains only the Node that runs this. */
function cacheWithNode(): string {
  const cache = createTemporaryFolder();
  const node = `node-${NODE_VERSION}`;
  mkdirSync(join(cache, 'carillon'));
  const folder = process.execPath.slice(0, process.execPath.indexOf(node) + node.length);
  symlinkSync(folder, join(cache, 'carillon', node));
  return cache;
}

interface ExitResult {
  code: number | null;
  said: string;
}

/** Calls a function of the bootstrap as on a fresh machine: nothing cached, nothing on PATH but the necessary. */
function callBootstrap(file: string, name: string, env: NodeJS.ProcessEnv): Promise<ExitResult> {
  const code = `import { ${name} } from ${JSON.stringify(join(BOOTSTRAP, file))};
    ${name}().catch((error) => { console.error(error.message); process.exitCode = 1; });`;
  return new Promise((resolve) => {
    const child = execFile(
      process.execPath,
      ['--input-type=module', '-e', code],
      { cwd: ROOT, env: { PATH: process.env.PATH, HOME: process.env.HOME, ...env } },
      (_error, _stdout, said) => resolve({ code: child.exitCode, said }),
    );
  });
}

describe("MongoDB from the vendor's host", () => {
  test('is not run, cached or replaced by another source when it was tampered with', async () => {
    const [cache, trace] = [cacheWithNode(), join(createTemporaryFolder(), 'trace')];
    server = await startFileServer(() => createArchive(trace));
    const env = { XDG_CACHE_HOME: cache, CARILLON_MONGODB_MIRROR: server.url };
    const { code, said } = await callBootstrap('mongod.mjs', 'findMongod', env);
    expect({ code, said }).toEqual({
      code: 1,
      said: expect.stringMatching(/SHA-256 [0-9a-f]{64}/),
    });
    expect(said).toContain('and is not run');
    expect(server.requestedPaths).toHaveLength(1);
    expect(existsSync(trace)).toBe(false);
    expect(readdirSync(join(cache, 'carillon'))).toEqual([`node-${NODE_VERSION}`]);
  });

  test('is known for each machine that can run it', () => {
    const machines = ['linux x64', 'linux arm64', 'darwin x64', 'darwin arm64'].map((one) => {
      const [platform = '', arch = ''] = one.split(' ');
      return findKnownArchive({ platform, arch, glibc: '2.36' });
    });
    expect(new Set(machines.map((known) => known?.sha256)).size).toBe(4);
    for (const glibc of ['2.31', '2.34', undefined]) {
      expect(findKnownArchive({ platform: 'linux', arch: 'x64', glibc })).toBeUndefined();
    }
  });
});

describe('a package from the npm registry', () => {
  test.each([
    ['pnpm', PNPM.version, 'ensurePnpm'],
    [NODE_PACKAGE, NODE_VERSION, 'ensureNode'],
  ])('as %s is not run or cached when it was tampered with', async (name, version, ensure) => {
    const [cache, trace] = [createTemporaryFolder(), join(createTemporaryFolder(), 'trace')];
    const packed = createPackage(name, version, trace);
    const registry: FileServer = await startFileServer((path) =>
      path.endsWith('.tgz') ? packed : createPackument(registry.url, { name, version, packed }),
    );
    server = registry;
    const env = { npm_config_registry: registry.url, npm_config_cache: createTemporaryFolder() };
    const { code, said } = await callBootstrap('tools.mjs', ensure, {
      ...env,
      XDG_CACHE_HOME: cache,
    });
    expect({ code, said }).toEqual({ code: 1, said: expect.stringContaining('and is not run') });
    expect(existsSync(trace)).toBe(false);
    expect(readdirSync(join(cache, 'carillon'))).toEqual([]);
  });
});

/** A package whose scripts and program leave a trace when they are run. */
function createPackage(name: string, version: string, trace: string): Buffer {
  const folder = createTemporaryFolder();
  mkdirSync(join(folder, 'package/bin'), { recursive: true });
  const leave = `touch ${trace}`;
  const manifest = { name, version, scripts: { preinstall: leave, install: leave } };
  writeFileSync(join(folder, 'package/package.json'), JSON.stringify(manifest));
  writeFileSync(join(folder, 'package/install.js'), `require('fs').writeFileSync('${trace}', '')`);
  writeFileSync(join(folder, 'package/bin/node'), `#!/bin/sh\n${leave}\n`, { mode: 0o755 });
  execFileSync('tar', ['-czf', 'package.tgz', 'package'], { cwd: folder });
  return readFileSync(join(folder, 'package.tgz'));
}

/** Metadata of a package in a registry; a hostile registry names the digest of the file that it serves. */
function createPackument(
  registry: string,
  { name, version, packed }: { name: string; version: string; packed: Buffer },
): string {
  const integrity = `sha512-${createHash('sha512').update(packed).digest('base64')}`;
  const dist = { integrity, tarball: `${registry}/${name}/-/${name}-${version}.tgz` };
  const versions = { [version]: { name, version, hasInstallScript: true, dist } };
  return JSON.stringify({ name, 'dist-tags': { latest: version }, versions });
}

describe('a download', () => {
  const CONTENT = Buffer.from('what was reviewed');
  const SHA_256 = createHash('sha256').update(CONTENT).digest('hex');
  const path = () => join(createTemporaryFolder(), 'file');

  test('is accepted when it has its digest', async () => {
    server = await startFileServer(() => CONTENT);
    const to = path();
    await downloadVerified(`${server.url}/file`, SHA_256, to);
    expect(readFileSync(to)).toEqual(CONTENT);
  });

  test.each([
    ['changed in one byte', Buffer.from('what was reviewee')],
    ['cut off', CONTENT.subarray(1)],
    ['empty', Buffer.alloc(0)],
  ])('that is %s is refused', async (_how, content) => {
    server = await startFileServer(() => content);
    const download = downloadVerified(`${server.url}/file`, SHA_256, path());
    await expect(download).rejects.toThrow(UntrustedDownloadError);
  });

  test('whose digest is published over plain HTTP, or nowhere, has none', async () => {
    server = await startFileServer((path) => (path.endsWith('sha256') ? SHA_256 : undefined));
    await expect(fetchPublishedDigest(`${server.url}/file`)).rejects.toThrow('HTTPS');
    await server.stop();
    server = await startFileServer(() => undefined);
    await expect(fetchPublishedDigest(`${server.url}/file`)).rejects.toThrow(
      UntrustedDownloadError,
    );
  });
});
