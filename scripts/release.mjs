// Builds what a release consists of, into dist/release: an OCI archive and a software bill of materials (CycloneDX) of
// each image, the images' digests, one YAML per overlay of k8s/overlays that names the images by digest, and the Helm chart.
//
//   npm run release            RELEASE_REGISTRY=registry.example.com/carillon names where the images will be
//
// `--platform=linux/amd64` builds for one architecture in place of both. `--dirty` builds from changes that are in no
// commit, and marks the revision. Without a registry, `--base=IMAGE` names a local image of Debian for the machine that
// builds, `--base-arm64=IMAGE` and `--base-amd64=IMAGE` one for another architecture, and `--storage=FOLDER` buildah's
// storage. docs/change/release.md describes how a release is published.

import { spawnSync } from 'node:child_process';
import {
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
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

const BOTH = 'linux/amd64,linux/arm64';
/** Debian's packages whose files are in every image; `root` in the Dockerfile copies them. */
const LIBRARIES = ['libc6', 'libgcc-s1', 'libstdc++6'];
const CERTIFICATES = ['ca-certificates'];

const { values: options } = parseArgs({
  options: {
    platform: { type: 'string', default: BOTH },
    dirty: { type: 'boolean', default: false },
    base: { type: 'string' },
    'base-amd64': { type: 'string' },
    'base-arm64': { type: 'string' },
    storage: { type: 'string' },
  },
});
const platforms = options.platform.split(',');
const architectureOf = (platform) => platform.split('/')[1];
/** Architecture of the machine that builds, as images call it. */
const BUILD_ARCHITECTURE = process.arch === 'x64' ? 'amd64' : process.arch;
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

const succeeds = (program, ...args) => spawnSync(program, args).status === 0;

/** Arguments of buildah that name the storage. */
const storage = options.storage?.length
  ? ['--root', join(options.storage, 'root'), '--runroot', join(options.storage, 'run')]
  : [];

/** Builds a target of the Dockerfile by buildah for one architecture. */
function runBuildah(target, platform, args) {
  // buildah sets neither where it is given a platform.
  const builder = [`BUILDPLATFORM=linux/${BUILD_ARCHITECTURE}`, `BUILDARCH=${BUILD_ARCHITECTURE}`];
  if (options.base !== undefined) {
    const base = options[`base-${architectureOf(platform)}`] ?? options.base;
    builder.push(`BASE=${base}`, `BUILD_BASE=${options.base}`);
  }
  const buildArgs = builder.flatMap((arg) => ['--build-arg', arg]);
  const pull = options.base === undefined ? [] : ['--pull-never'];
  const bud = ['bud', '--isolation', 'chroot', '--layers', ...pull, '--platform', platform];
  run('buildah', [...storage, ...bud, '--target', target, ...buildArgs, ...args, '.']);
}

/** Builds an image by buildah for all platforms, and writes one archive. Returns the digest of its list, or of the one. */
function buildByBuildah(name, archive, buildArgs, seconds) {
  // Of its own: a list can't take the name of an image.
  const tag = `localhost/carillon-release/${name}:${version}`;
  const tags = platforms.map((platform) => `${tag}-${architectureOf(platform)}`);
  for (const [index, platform] of platforms.entries()) {
    // OCI's format: Docker's records the builder's containers, and two builds would differ. It has no health check; compose
    // and Kubernetes bring their own.
    runBuildah(name, platform, ['--timestamp', seconds, ...buildArgs, '-t', tags[index]]);
    const inspect = ['inspect', '--type', 'image', '--format', '{{.OCIv1.Architecture}}'];
    const built = run('buildah', [...storage, ...inspect, tags[index]]);
    // Layers of one architecture may not serve another.
    if (built !== architectureOf(platform))
      throw new ReleaseError(`${tags[index]} is for ${built}.`);
  }
  const digestFile = `${archive}.digest`;
  const to = ['--digestfile', digestFile];
  if (tags.length === 1) {
    run('buildah', [...storage, 'push', ...to, tags[0], `oci-archive:${archive}:${version}`]);
  } else {
    // Of a run before.
    succeeds('buildah', ...storage, 'manifest', 'rm', tag);
    run('buildah', [...storage, 'manifest', 'create', tag]);
    for (const one of tags) run('buildah', [...storage, 'manifest', 'add', tag, one]);
    const push = ['manifest', 'push', '--all', '--format', 'oci', ...to];
    run('buildah', [...storage, ...push, tag, `oci-archive:${archive}:${version}`]);
  }
  const digest = readFileSync(digestFile, 'utf8').trim();
  rmSync(digestFile);
  return digest;
}

/** Does the same by docker with buildx. */
function buildByDocker(name, archive, buildArgs, seconds) {
  const metadata = `${archive}.json`;
  const output = `type=oci,dest=${archive},rewrite-timestamp=true`;
  const epoch = ['--build-arg', `SOURCE_DATE_EPOCH=${seconds}`, '--provenance=false'];
  const files = ['--metadata-file', metadata, '--output', output, '--platform', options.platform];
  run('docker', ['buildx', 'build', '--target', name, ...epoch, ...buildArgs, ...files, '.']);
  const digest = JSON.parse(readFileSync(metadata, 'utf8'))['containerimage.digest'];
  rmSync(metadata);
  return digest;
}

/** Finds the program that builds. @throws ReleaseError when there is none */
function findBuilder() {
  if (succeeds('buildah', '--version')) return 'buildah';
  if (succeeds('docker', 'buildx', 'version')) return 'docker';
  throw new ReleaseError('Building the images needs buildah or docker with buildx.');
}

/** Reads the Debian packages, with their versions, that an architecture's images have files of. */
function readDebianPackages(platform) {
  const folder = join(OUT, 'packages');
  if (findBuilder() === 'buildah') {
    runBuildah('packages', platform, ['--output', `type=local,dest=${folder}`]);
  } else {
    const output = ['--platform', platform, '--output', `type=local,dest=${folder}`];
    run('docker', ['buildx', 'build', '--target', 'packages', ...output, '.']);
  }
  const read = (name) => readFileSync(join(folder, name), 'utf8');
  const [, release] = /^VERSION_ID="?(\d+)/m.exec(read('os-release')) ?? [];
  const found = [
    ...describePackages(LIBRARIES, read('libraries'), release),
    ...describePackages(CERTIFICATES, read('tools'), release),
  ];
  rmSync(folder, { recursive: true });
  return found;
}

/** Describes packages as dpkg's status file has them. @throws ReleaseError when one is missing */
function describePackages(names, status, release) {
  const paragraphs = status.split('\n\n').map((paragraph) => {
    const field = (name) => new RegExp(`^${name}: (.*)$`, 'm').exec(paragraph)?.[1];
    return {
      name: field('Package'),
      version: field('Version'),
      architecture: field('Architecture'),
    };
  });
  return names.map((wanted) => {
    const found = paragraphs.find(({ name }) => name === wanted);
    if (found?.version === undefined) throw new ReleaseError(`The base has no package ${wanted}.`);
    const { version, architecture } = found;
    const path = `debian/${encodeURIComponent(wanted)}@${encodeURIComponent(version)}`;
    const purl = `pkg:deb/${path}?arch=${architecture}&distro=debian-${release}`;
    return { type: 'library', 'bom-ref': purl, name: wanted, version, purl };
  });
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

const sortBy = (items, keyOf) =>
  items.toSorted((a, b) => (keyOf(a) < keyOf(b) ? -1 : Number(keyOf(a) > keyOf(b))));

/** Writes the bill of materials of a service's production dependencies, from the lockfile, of Node and of Debian's files. */
function writeSbom(name, seconds, debianPackages) {
  // The console's pages are built from libraries that the service itself does not import.
  const packages = name === 'dashboard' ? ['dashboard', 'console-web'] : [name];
  const filters = packages.flatMap((one) => ['--filter', `@carillon/${one}`]);
  const args = [...filters, 'sbom', '--sbom-format', 'cyclonedx', '--prod'];
  const sbom = JSON.parse(run(findPnpm(), args));
  // The same source gives the same file.
  delete sbom.serialNumber;
  sbom.components.push(describeNode(), ...debianPackages);
  // pnpm writes them in an order that changes from run to run.
  sbom.components = sortBy(sbom.components, (component) => component['bom-ref']);
  sbom.dependencies = sortBy(sbom.dependencies, ({ ref }) => ref).map((dependency) => ({
    ...dependency,
    ...(dependency.dependsOn && { dependsOn: dependency.dependsOn.toSorted() }),
  }));
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

/** Packs the chart as `helm package` does, with the registry as its default. */
function packChart() {
  const folder = join(OUT, 'carillon');
  cpSync(join(ROOT, 'k8s/chart'), folder, { recursive: true });
  const values = join(folder, 'values.yaml');
  const text = readFileSync(values, 'utf8');
  writeFileSync(
    values,
    text.replace('registry: carillon\n', () => `registry: ${registry}\n`),
  );
  run('tar', ['-czf', `carillon-${version}.tgz`, 'carillon'], OUT);
  rmSync(folder, { recursive: true });
}

/** Returns the commit that is built. @throws ReleaseError when there are changes in no commit */
function findRevision() {
  const revision = run('git', ['rev-parse', 'HEAD']);
  if (run('git', ['status', '--porcelain']) === '') return revision;
  if (options.dirty) return `${revision}-dirty`;
  throw new ReleaseError(
    'The work tree has changes that are in no commit. --dirty builds them, marked.',
  );
}

try {
  rmSync(OUT, { recursive: true, force: true });
  mkdirSync(OUT, { recursive: true });
  const revision = findRevision();
  const seconds = run('git', ['log', '-1', '--format=%ct']);
  const debianPackages = new Map(
    platforms.flatMap(readDebianPackages).map((found) => [found.purl, found]),
  );
  const digests = {};
  for (const name of IMAGES) {
    const archive = join(OUT, `carillon-${name}-${version}.tar`);
    const buildArgs = [`VERSION=${version}`, `REVISION=${revision}`];
    const build = findBuilder() === 'buildah' ? buildByBuildah : buildByDocker;
    const args = buildArgs.flatMap((arg) => ['--build-arg', arg]);
    digests[name] = build(name, archive, args, seconds);
    writeSbom(name, seconds, debianPackages.values());
    process.stdout.write(`${registry}/${name}:${version}@${digests[name]}\n`);
  }
  const list = Object.entries(digests).map(([name, digest]) => `${registry}/${name}@${digest}\n`);
  writeFileSync(join(OUT, 'digests.txt'), list.join(''));
  renderOverlays(digests);
  packChart();
} catch (error) {
  if (!(error instanceof ReleaseError)) throw error;
  process.stderr.write(`${error.message}\n`);
  process.exitCode = 1;
}
