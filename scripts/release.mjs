// Builds what a release consists of, into dist/release: an OCI archive and a software bill of materials (CycloneDX) of
// each image, the images' digests, and one YAML per overlay of k8s/overlays that names the images by digest.
//
//   npm run release            RELEASE_REGISTRY=registry.example.com/carillon names where the images will be
//
// `--base=IMAGE` and `--storage=FOLDER` are for builds without a registry; see test/deploy.

import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';

const ROOT = fileURLToPath(new URL('..', import.meta.url));
const OUT = join(ROOT, 'dist/release');
const OVERLAYS = join(ROOT, 'k8s/overlays');
const IMAGES = [
  ...['api', 'delivery-worker', 'scheduler', 'device-gateway', 'dashboard', 'cli', 'sandbox'],
];
const MAX_OUTPUT_BYTES = 64 * 1_024 * 1_024;

const { values: options } = parseArgs({
  options: { base: { type: 'string' }, storage: { type: 'string' } },
});
const registry = process.env.RELEASE_REGISTRY ?? 'carillon';
const { version } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8'));

class ReleaseError extends Error {}

function run(program, args, cwd = ROOT) {
  const result = spawnSync(program, args, {
    cwd,
    encoding: 'utf8',
    maxBuffer: MAX_OUTPUT_BYTES,
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  if (result.error?.code === 'ENOENT') throw new ReleaseError(`${program} is not installed.`);
  if (result.status !== 0) {
    const lines = `${result.stdout}${result.stderr}`.trim().split('\n').slice(-20).join('\n');
    throw new ReleaseError(`${program} ${args.join(' ')} failed:\n${lines}`);
  }
  return result.stdout.trim();
}

const isInstalled = (program, ...args) => spawnSync(program, args).status === 0;

/** Builds an image and writes its archive. Returns the digest of its manifest. */
function buildImage(name, revision, seconds) {
  const archive = join(OUT, `carillon-${name}-${version}.tar`);
  const build = ['--target', name, '--build-arg', `VERSION=${version}`];
  build.push('--build-arg', `REVISION=${revision}`);
  if (options.base !== undefined) build.push('--build-arg', `BASE=${options.base}`);
  if (isInstalled('buildah', '--version')) {
    const storage = options.storage?.length
      ? ['--root', join(options.storage, 'root'), '--runroot', join(options.storage, 'run')]
      : [];
    const tag = `localhost/carillon/${name}:${version}`;
    // OCI's format: Docker's records the builder's containers, and two builds would differ. It has no health check; compose
    // and Kubernetes bring their own.
    const format = ['--isolation', 'chroot', '--layers'];
    const pull = options.base === undefined ? [] : ['--pull-never'];
    const bud = ['bud', ...format, ...pull, '--timestamp', seconds, ...build, '-t', tag, '.'];
    run('buildah', [...storage, ...bud]);
    const digestFile = `${archive}.digest`;
    const push = ['push', '--digestfile', digestFile, tag, `oci-archive:${archive}:${version}`];
    run('buildah', [...storage, ...push]);
    const digest = readFileSync(digestFile, 'utf8').trim();
    rmSync(digestFile);
    return digest;
  }
  if (!isInstalled('docker', 'buildx', 'version')) {
    throw new ReleaseError('Building the images needs buildah or docker with buildx.');
  }
  const metadata = `${archive}.json`;
  const output = `type=oci,dest=${archive},rewrite-timestamp=true`;
  const epoch = ['--build-arg', `SOURCE_DATE_EPOCH=${seconds}`, '--provenance=false'];
  const files = ['--metadata-file', metadata, '--output', output];
  run('docker', ['buildx', 'build', ...epoch, ...build, ...files, '.']);
  const digest = JSON.parse(readFileSync(metadata, 'utf8'))['containerimage.digest'];
  rmSync(metadata);
  return digest;
}

/** The pnpm that the bootstrap has fetched, of the version that the Dockerfile names too. */
function findPnpm() {
  const dockerfile = readFileSync(join(ROOT, 'Dockerfile'), 'utf8');
  const cache = process.env.XDG_CACHE_HOME || join(homedir(), '.cache');
  const folder = `pnpm-${/PNPM_VERSION=(\S+)/.exec(dockerfile)?.[1]}`;
  return join(cache, 'carillon', folder, 'node_modules/.bin/pnpm');
}

/** Node itself, which is in every image, as scanners of vulnerabilities find it. */
function describeNode() {
  const dockerfile = readFileSync(join(ROOT, 'Dockerfile'), 'utf8');
  const version = /NODE_VERSION=(\S+)/.exec(dockerfile)?.[1];
  return {
    type: 'application',
    'bom-ref': `pkg:generic/node@${version}`,
    name: 'node',
    version,
    purl: `pkg:generic/node@${version}`,
    cpe: `cpe:2.3:a:nodejs:node.js:${version}:*:*:*:*:*:*:*`,
    licenses: [{ license: { id: 'MIT' } }],
  };
}

/** Writes the bill of materials of a service's production dependencies, from the lockfile, and of Node. */
function writeSbom(name, seconds) {
  // The console's pages are built from libraries that the service itself does not import.
  const packages = name === 'dashboard' ? ['dashboard', 'console-web'] : [name];
  const filters = packages.flatMap((one) => ['--filter', `@carillon/${one}`]);
  const args = [...filters, 'sbom', '--sbom-format', 'cyclonedx', '--prod'];
  const sbom = JSON.parse(run(findPnpm(), args));
  // The same source gives the same file.
  delete sbom.serialNumber;
  sbom.components.push(describeNode());
  sbom.metadata.timestamp = new Date(Number(seconds) * 1_000).toISOString();
  const text = `${JSON.stringify(sbom, undefined, 2)}\n`;
  writeFileSync(join(OUT, `carillon-${name}-${version}.cdx.json`), text);
}

/** Renders the overlays with the images' digests. */
function renderOverlays(digests) {
  if (!existsSync(OVERLAYS)) throw new ReleaseError('There is no k8s/overlays to render.');
  for (const overlay of readdirSync(OVERLAYS)) {
    const folder = join(OUT, 'kustomize');
    mkdirSync(folder, { recursive: true });
    const images = Object.entries(digests).map(([name, digest]) => ({
      name: `carillon/${name}`,
      newName: `${registry}/${name}`,
      digest,
    }));
    // JSON is YAML.
    const kustomization = { resources: [`../../../k8s/overlays/${overlay}`], images };
    writeFileSync(join(folder, 'kustomization.yaml'), JSON.stringify(kustomization));
    const yaml = run('kubectl', ['kustomize', folder]);
    writeFileSync(join(OUT, `carillon-${version}-${overlay}.yaml`), `${yaml}\n`);
    rmSync(folder, { recursive: true });
  }
}

try {
  rmSync(OUT, { recursive: true, force: true });
  mkdirSync(OUT, { recursive: true });
  const revision = run('git', ['rev-parse', 'HEAD']);
  const seconds = run('git', ['log', '-1', '--format=%ct']);
  const digests = {};
  for (const name of IMAGES) {
    digests[name] = buildImage(name, revision, seconds);
    writeSbom(name, seconds);
    process.stdout.write(`${registry}/${name}:${version}@${digests[name]}\n`);
  }
  const list = Object.entries(digests).map(([name, digest]) => `${registry}/${name}@${digest}\n`);
  writeFileSync(join(OUT, 'digests.txt'), list.join(''));
  renderOverlays(digests);
} catch (error) {
  if (!(error instanceof ReleaseError)) throw error;
  process.stderr.write(`${error.message}\n`);
  process.exitCode = 1;
}
