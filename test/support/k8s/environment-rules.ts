import { WORKER_QUEUES } from '../../../packages/queue/src/jobs.ts';
import { findVariable, findWorkloads, type Manifest, type Workload } from './manifest.ts';
import { listBroken, type Rule } from './rule.ts';
import { findRequiredVariables, findSetting, SETTINGS } from './services.ts';

/** Variables that contain secrets; they are never values of a manifest. */
const SECRET_KEYS = [
  'MONGODB_URI',
  'REDIS_URL',
  'PRESENCE_REDIS_URL',
  'API_KEY_PEPPER',
  'DEVICE_AUTH_KEYS',
  'CREDENTIAL_KEYS',
  'OIDC_CLIENT_SECRET',
  'CARILLON_API_KEY',
];

/** Variables of other programs, such as Node. */
const FOREIGN = ['HOME', 'NODE_OPTIONS', 'TZ'];

function findCarillonWorkloads(manifests: readonly Manifest[]): Workload[] {
  return findWorkloads(manifests).filter(({ service }) => service in SETTINGS);
}

const knownVariables: Rule = {
  name: 'known variables',
  check: (manifests) =>
    findCarillonWorkloads(manifests).flatMap(({ name, service, container }) =>
      (container.env ?? [])
        .filter((variable) => !FOREIGN.includes(variable.name))
        .flatMap(({ name: variable, value }) => {
          const schema = findSetting(service, variable);
          if (schema === undefined) return [`${name} does not know ${variable}`];
          if (variable.endsWith('_FILE')) return [];
          const { success } = schema.safeParse(value);
          return success ? [] : [`${name} can't read ${variable}=${value}`];
        }),
    ),
};

const requiredVariables: Rule = {
  name: 'required variables',
  check: (manifests) =>
    findCarillonWorkloads(manifests).flatMap(({ name, service, container }) =>
      findRequiredVariables(service)
        .filter(
          (variable) =>
            findVariable(container, variable) === undefined &&
            findVariable(container, `${variable}_FILE`) === undefined,
        )
        .map((variable) => `${name} has no ${variable}`),
    ),
};

/** Lists the faults of the files that variables name. */
function checkFiles({ pod, container }: Workload): string[] {
  const mounts = container.volumeMounts ?? [];
  return (container.env ?? [])
    .filter(({ name }) => name.endsWith('_FILE'))
    .flatMap(({ name, value = '' }) => {
      const mount = mounts.find(({ mountPath }) => value.startsWith(`${mountPath}/`));
      const volume = pod.volumes?.find((candidate) => candidate.name === mount?.name);
      const file = value.slice((mount?.mountPath.length ?? 0) + 1);
      const items = volume?.secret?.items;
      return listBroken({
        [`${name} names a file that is not mounted`]: volume !== undefined,
        [`${name} names a file that is not among the items`]:
          items === undefined || items.some(({ path }) => path === file),
        // The kubelet never renews such a file.
        [`${name} is mounted by subPath`]: mount?.subPath === undefined,
      });
    });
}

/** Lists the mounted secrets that no variable names. */
function findUnusedSecrets({ pod, container }: Workload): string[] {
  const items = pod.volumes?.flatMap(({ secret }) => secret?.items ?? []) ?? [];
  return items
    .filter(({ path }) => !container.env?.some(({ value }) => value?.endsWith(`/${path}`)))
    .map(({ key }) => `gets ${key}, which it does not use`);
}

const secretFiles: Rule = {
  name: 'secrets as files',
  check: (manifests) =>
    findCarillonWorkloads(manifests).flatMap((workload) => {
      const { env = [] } = workload.container;
      const values = env
        .filter(({ name, valueFrom }) => SECRET_KEYS.includes(name) || valueFrom !== undefined)
        .map(({ name }) => `has ${name} as a value`);
      return [...values, ...checkFiles(workload), ...findUnusedSecrets(workload)].map(
        (sentence) => `${workload.name} ${sentence}`,
      );
    }),
};

const queues: Rule = {
  name: 'queues',
  check(manifests) {
    const pools = findWorkloads(manifests).filter(({ service }) => service === 'delivery-worker');
    const served = pools.map(({ container }) => findVariable(container, 'QUEUES'));
    if (served.includes(undefined)) return [];
    const names = new Set(served.flatMap((text) => text?.split(',') ?? []));
    return [
      ...WORKER_QUEUES.filter((name) => !names.has(name)).map((name) => `no worker serves ${name}`),
      ...[...names]
        .filter((name) => !WORKER_QUEUES.some((queue) => queue === name))
        .map((name) => `there is no queue ${name}`),
    ];
  },
};

export const ENVIRONMENT_RULES: readonly Rule[] = [
  knownVariables,
  requiredVariables,
  secretFiles,
  queues,
];
