import { readFileSync } from 'node:fs';
import {
  type Container,
  findDeployments,
  findVariable,
  findWorkloads,
  isSelected,
  type Manifest,
  type Probe,
  parseMebibytes,
  type Workload,
} from './manifest.ts';
import { ROOT } from './render.ts';
import { listBroken, type Rule } from './rule.ts';
import { readMeasuredMemory } from './services.ts';

const CARILLON_USER = 65_532;
const OPS_PORT = 9_000;
/** Time within which a process ends, in seconds, without its delay and its drain. */
const STOP_SECONDS = 20;
/** A limit nearer to what was measured would end processes for a busy second. */
const MEMORY_FACTOR = 1.5;
/** The longest back-off of the kubelet, in minutes. */
const BACK_OFF_MINUTES = 5;
/** Services with clients that connect to them. */
const LISTENING = ['api', 'device-gateway', 'dashboard'];
const { version } = JSON.parse(readFileSync(`${ROOT}package.json`, 'utf8')) as { version: string };
const measuredMemory = readMeasuredMemory();
/** Names of servers that are not Carillon's in the measurements. */
const MEASURED_AS: Readonly<Record<string, string>> = {
  mongodb: 'MongoDB',
  valkey: 'Redis',
  'valkey-sentinel': 'Sentinel',
};

/** Makes a rule of a check of each Deployment. */
function forDeployments(
  name: string,
  check: (workload: Workload, manifests: readonly Manifest[]) => Readonly<Record<string, boolean>>,
): Rule {
  return {
    name,
    check: (manifests) =>
      findDeployments(manifests).flatMap((workload) =>
        listBroken(check(workload, manifests)).map((sentence) => `${workload.name} ${sentence}`),
      ),
  };
}

function isProbed(container: Container, probe: Probe | undefined, path: string): boolean {
  const port = probe?.httpGet?.port;
  const named = container.ports?.find(({ name }) => name === port)?.containerPort;
  return probe?.httpGet?.path === path && (named ?? port) === OPS_PORT;
}

const probes = forDeployments('probes', ({ container }) => ({
  'has no startup probe of /livez': isProbed(container, container.startupProbe, '/livez'),
  'has no liveness probe of /livez': isProbed(container, container.livenessProbe, '/livez'),
  'has no readiness probe of /readyz': isProbed(container, container.readinessProbe, '/readyz'),
}));

const disruptionBudget = forDeployments('disruption budget', ({ labels }, manifests) => {
  const budgets = manifests.filter(
    ({ kind, spec }) =>
      kind === 'PodDisruptionBudget' && isSelected(spec?.selector as object, labels),
  );
  return {
    // With two, an eviction of the pod is an error.
    'is not selected by exactly one PodDisruptionBudget': budgets.length === 1,
    'may lose more than one pod at a time': budgets.every(({ spec }) => spec?.maxUnavailable === 1),
  };
});

/** A tag can be moved to another image, a digest can't. */
const DIGEST = /@sha256:[0-9a-f]{64}$/;

function checkSecurity({ pod, container }: Workload): Readonly<Record<string, boolean>> {
  const { securityContext: ofPod } = pod;
  const { securityContext: ofContainer } = container;
  const isOfCarillon = container.image.startsWith('carillon/');
  return {
    'has more than one container': pod.containers.length === 1,
    'may run as root': ofPod?.runAsNonRoot === true && (ofPod.runAsUser ?? 0) > 0,
    'runs as another user than 65532': !isOfCarillon || ofPod?.runAsUser === CARILLON_USER,
    'has no seccomp profile': ofPod?.seccompProfile?.type === 'RuntimeDefault',
    'gets a token of the service account': pod.automountServiceAccountToken === false,
    'gets a variable for each Service': pod.enableServiceLinks === false,
    'may gain privileges': ofContainer?.allowPrivilegeEscalation === false,
    'is privileged': ofContainer?.privileged !== true,
    'has a writable root': ofContainer?.readOnlyRootFilesystem === true,
    'keeps capabilities':
      ofContainer?.capabilities?.drop?.[0] === 'ALL' && ofContainer.capabilities.add === undefined,
    'has an image of others without a digest': isOfCarillon || DIGEST.test(container.image),
    'has no writable /tmp': hasTemporaryFolder(pod.volumes, container),
  };
}

function hasTemporaryFolder(volumes: Workload['pod']['volumes'], container: Container): boolean {
  const mount = container.volumeMounts?.find(({ mountPath }) => mountPath === '/tmp');
  return volumes?.some(({ name, emptyDir }) => name === mount?.name && !!emptyDir) === true;
}

const security: Rule = {
  name: 'security context',
  check: (manifests) =>
    findWorkloads(manifests).flatMap((workload) =>
      listBroken(checkSecurity(workload)).map((sentence) => `${workload.name} ${sentence}`),
    ),
};

const podSecurity: Rule = {
  name: 'pod security',
  check: (manifests) =>
    manifests.some(
      ({ kind, metadata }) =>
        kind === 'Namespace' &&
        metadata.labels?.['pod-security.kubernetes.io/enforce'] === 'restricted',
    )
      ? []
      : ['the namespace does not enforce PodSecurity restricted'],
};

const topologySpread = forDeployments('topology spread', ({ pod, labels }) => {
  const constraints = pod.topologySpreadConstraints ?? [];
  const spreadsOver = (topology: string) =>
    constraints.some(
      ({ topologyKey, labelSelector }) =>
        topologyKey === topology &&
        labelSelector !== undefined &&
        isSelected(labelSelector, labels),
    );
  return {
    'is not spread over zones': spreadsOver('topology.kubernetes.io/zone'),
    'is not spread over nodes': spreadsOver('kubernetes.io/hostname'),
  };
});

const resources: Rule = {
  name: 'resources',
  check: (manifests) =>
    findWorkloads(manifests).flatMap(({ name, service, container }) => {
      const { requests, limits } = container.resources ?? {};
      const limit = parseMebibytes(limits?.memory);
      const measured = measuredMemory.get(MEASURED_AS[service] ?? service);
      return listBroken({
        'requests no CPU': requests?.cpu !== undefined,
        'requests no memory': parseMebibytes(requests?.memory) > 0,
        'has no memory limit': limit > 0,
        'has a limit of CPU, which throttles it': limits?.cpu === undefined,
        'has no measured memory in docs/performance.md': measured !== undefined,
        [`has less memory than ${MEMORY_FACTOR} times the measured ${measured} MB`]: !(
          limit <
          (measured ?? 0) * MEMORY_FACTOR
        ),
      }).map((sentence) => `${name} ${sentence}`);
    }),
};

const gracePeriod = forDeployments('grace period', ({ pod, container }) => {
  const sleepSeconds = container.lifecycle?.preStop?.sleep?.seconds ?? 0;
  // The process serves on for the delay after the preStop, and the deadline of its stop begins behind it.
  const delaySeconds = Number(findVariable(container, 'STOP_DELAY_SECONDS') ?? 0);
  const drainSeconds = Number(findVariable(container, 'GATEWAY_DRAIN_SECONDS') ?? 0);
  const needed = sleepSeconds + delaySeconds + drainSeconds + STOP_SECONDS;
  return {
    [`is killed before the ${needed} s of its stop are over`]:
      (pod.terminationGracePeriodSeconds ?? 0) > needed,
  };
});

const preStop = forDeployments('preStop', ({ service, container }) => {
  const isListening = LISTENING.includes(service);
  const seconds = container.lifecycle?.preStop?.sleep?.seconds ?? 0;
  return { 'stops before load balancers know it': !isListening || seconds >= 5 };
});

const pace = forDeployments('pace', ({ service, manifest }) => ({
  'is replaced before the new pod has served for 10 s':
    !LISTENING.includes(service) || (manifest.spec?.minReadySeconds ?? 0) >= 10,
}));

const images: Rule = {
  name: 'images',
  check: (manifests) =>
    findWorkloads(manifests)
      .filter(({ container }) => container.image.startsWith('carillon/'))
      .filter(({ container }) => !container.image.endsWith(`:${version}`))
      .map(({ name, container }) => `${name} has ${container.image}, not ${version}`),
};

const migrateWaits: Rule = {
  name: 'migrate waits',
  check: (manifests) =>
    findWorkloads(manifests)
      .filter(({ service }) => service === 'migrate')
      .filter(({ container: { args = [] } }) => {
        const [, minutes = 0] = /^(\d+)m$/.exec(args[args.indexOf('--wait') + 1] ?? '') ?? [];
        return Number(minutes) < BACK_OFF_MINUTES;
      })
      .map(({ name }) => `${name} ends while MongoDB is away, and comes back after minutes`),
};

export const POD_RULES: readonly Rule[] = [
  probes,
  disruptionBudget,
  security,
  podSecurity,
  topologySpread,
  resources,
  gracePeriod,
  preStop,
  pace,
  images,
  migrateWaits,
];
