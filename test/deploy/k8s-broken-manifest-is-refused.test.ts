import { beforeAll, describe, expect, test } from '@jest/globals';
import { BROKEN_NETWORK } from '../support/k8s/broken-network.ts';
import {
  ALL,
  type BrokenManifest,
  find,
  inContainer,
  inEnv,
  inPod,
  inSpec,
  inTrigger,
  PROD,
  remove,
} from '../support/k8s/change.ts';
import { checkManifests, RULES } from '../support/k8s/check-manifests.ts';
import type { Manifest } from '../support/k8s/manifest.ts';
import { RENDERED, render } from '../support/k8s/render.ts';
import { readMeasuredMemory } from '../support/k8s/services.ts';

const rendered = new Map<string, Manifest[]>();

beforeAll(async () => {
  for (const folder of RENDERED) rendered.set(folder, await render(folder));
}, 300_000);

/** Manifests that break rules of pods, environments and scaling, and then those that break rules of the network. */
const BROKEN: readonly BrokenManifest[] = [
  ['probes: api has no startup probe', PROD, inContainer((c) => delete c.startupProbe)],
  ['probes: api has no liveness probe', PROD, inContainer((c) => delete c.livenessProbe)],
  [
    'probes: api has no readiness probe of /readyz',
    PROD,
    inContainer((c) => Object.assign(c, { readinessProbe: c.livenessProbe })),
  ],
  [
    'disruption budget: api is not selected by exactly one',
    PROD,
    (manifests) => remove(manifests, 'PodDisruptionBudget', 'api'),
  ],
  [
    'disruption budget: api may lose more',
    PROD,
    inSpec('PodDisruptionBudget', 'api', (s) => Object.assign(s, { maxUnavailable: 2 })),
  ],
  [
    'security context: api may run as root',
    PROD,
    inPod((pod) => Object.assign(pod.securityContext ?? {}, { runAsNonRoot: false })),
  ],
  [
    'security context: api runs as another user',
    PROD,
    inPod((pod) => Object.assign(pod.securityContext ?? {}, { runAsUser: 1000 })),
  ],
  [
    'security context: sandbox runs as another user',
    ALL,
    inPod((pod) => Object.assign(pod.securityContext ?? {}, { runAsUser: 999 }), 'sandbox'),
  ],
  [
    'security context: api has no seccomp',
    PROD,
    inPod((pod) => delete pod.securityContext?.seccompProfile),
  ],
  [
    'security context: api gets a token',
    PROD,
    inPod((pod) => delete pod.automountServiceAccountToken),
  ],
  [
    'security context: api gets a variable for each Service',
    PROD,
    inPod((pod) => delete pod.enableServiceLinks),
  ],
  [
    'pace: api is replaced before the new pod',
    PROD,
    inSpec('Deployment', 'api', (s) => delete s.minReadySeconds),
  ],
  [
    'security context: api may gain privileges',
    PROD,
    inContainer((c) => delete c.securityContext?.allowPrivilegeEscalation),
  ],
  [
    'security context: api is privileged',
    PROD,
    inContainer((c) => Object.assign(c.securityContext ?? {}, { privileged: true })),
  ],
  [
    'security context: api has a writable root',
    PROD,
    inContainer((c) => delete c.securityContext?.readOnlyRootFilesystem),
  ],
  [
    'security context: migrate keeps capabilities',
    PROD,
    inContainer((c) => delete c.securityContext?.capabilities, 'migrate'),
  ],
  [
    'security context: api keeps capabilities',
    PROD,
    inContainer((c) => Object.assign(c.securityContext?.capabilities ?? {}, { add: ['NET_RAW'] })),
  ],
  [
    'security context: api has an image of others without a digest',
    PROD,
    inContainer((c) => Object.assign(c, { image: 'docker.io/library/mongo:7' })),
  ],
  ['security context: api has no writable /tmp', PROD, inPod((pod) => pod.volumes?.shift())],
  [
    'security context: api has more than one container',
    PROD,
    inPod((pod) => pod.containers.push({ name: 'sidecar', image: 'sidecar:1' })),
  ],
  [
    'pod security: the namespace',
    PROD,
    (manifests) => delete find(manifests, 'Namespace', 'carillon').metadata.labels,
  ],
  [
    'topology spread: api is not spread over zones',
    PROD,
    inPod((pod) => pod.topologySpreadConstraints?.shift()),
  ],
  [
    'topology spread: api is not spread over nodes',
    PROD,
    inPod((pod) => pod.topologySpreadConstraints?.pop()),
  ],
  ['resources: api requests no CPU', PROD, inContainer((c) => delete c.resources?.requests?.cpu)],
  [
    'resources: api requests no memory',
    PROD,
    inContainer((c) => delete c.resources?.requests?.memory),
  ],
  ['resources: api has no memory limit', PROD, inContainer((c) => delete c.resources?.limits)],
  [
    'resources: api has a limit of CPU',
    PROD,
    inContainer((c) => Object.assign(c.resources?.limits ?? {}, { cpu: '1' })),
  ],
  [
    `resources: api has less memory than 1.5 times the measured ${readMeasuredMemory().get('api')} MB`,
    PROD,
    inContainer((c) => Object.assign(c.resources?.limits ?? {}, { memory: '300Mi' })),
  ],
  [
    'resources: api has no measured memory',
    PROD,
    inSpec('Deployment', 'api', (s) =>
      Object.assign(s.template?.metadata.labels ?? {}, { 'app.kubernetes.io/name': 'another' }),
    ),
  ],
  [
    'grace period: device-gateway is killed before the 85 s',
    PROD,
    inPod((pod) => Object.assign(pod, { terminationGracePeriodSeconds: 60 }), 'device-gateway'),
  ],
  [
    'grace period: device-gateway is killed before the 325 s',
    PROD,
    inEnv('GATEWAY_DRAIN_SECONDS', '300', 'device-gateway'),
  ],
  [
    'grace period: device-gateway is killed before the 115 s',
    PROD,
    inEnv('STOP_DELAY_SECONDS', '30', 'device-gateway'),
  ],
  ['grace period: api is killed before the 35 s', PROD, inEnv('STOP_DELAY_SECONDS', '10')],
  ['preStop: api stops before', PROD, inContainer((c) => delete c.lifecycle)],
  [
    'images: api has carillon/api:latest',
    PROD,
    inContainer((c) => Object.assign(c, { image: 'carillon/api:latest' })),
  ],
  [
    'migrate waits: migrate ends while MongoDB is away',
    PROD,
    inContainer((c) => Object.assign(c, { args: ['migrate'] }), 'migrate'),
  ],
  ['known variables: api does not know MQTT_LISTEN', PROD, inEnv('MQTT_LISTEN', 'off')],
  ["known variables: api can't read TRUST_PROXY=yes", PROD, inEnv('TRUST_PROXY', 'yes')],
  ['required variables: api has no API_KEY_PEPPER', PROD, inEnv('API_KEY_PEPPER_FILE', undefined)],
  [
    'required variables: migrate has no MONGODB_URI',
    PROD,
    inEnv('MONGODB_URI_FILE', undefined, 'migrate'),
  ],
  [
    'secrets as files: api has REDIS_URL as a value',
    PROD,
    inEnv('REDIS_URL', 'redis://:password@cache:6379'),
  ],
  [
    'secrets as files: api REDIS_URL_FILE names a file that is not mounted',
    PROD,
    inEnv('REDIS_URL_FILE', '/etc/redis-url'),
  ],
  [
    'secrets as files: api REDIS_URL_FILE names a file that is not among the items',
    PROD,
    inEnv('REDIS_URL_FILE', '/run/secrets/carillon/REDIS'),
  ],
  [
    'secrets as files: device-gateway TLS_KEY_FILE is mounted by subPath',
    PROD,
    inContainer(
      (c) =>
        c.volumeMounts?.forEach((mount) => {
          mount.subPath = 'file';
        }),
      'device-gateway',
    ),
  ],
  [
    'secrets as files: api gets CREDENTIAL_KEYS, which it does not use',
    PROD,
    inPod((pod) =>
      pod.volumes?.forEach(({ secret }) => {
        secret?.items?.push({ key: 'CREDENTIAL_KEYS', path: 'CREDENTIAL_KEYS' });
      }),
    ),
  ],
  [
    'queues: no worker serves finish',
    ALL,
    inEnv('QUEUES', 'send,deliver-mqtt,presence', 'delivery-worker'),
  ],
  [
    'queues: there is no queue deliver-sms',
    ALL,
    inEnv('QUEUES', 'deliver-sms,deliver-apns', 'delivery-worker-providers'),
  ],
  [
    'replicas: api has two autoscalers',
    PROD,
    (manifests) =>
      manifests.push({
        ...find(manifests, 'ScaledObject', 'api'),
        kind: 'HorizontalPodAutoscaler',
      }),
  ],
  [
    'replicas: api has replicas beside',
    PROD,
    inSpec('Deployment', 'api', (s) => Object.assign(s, { replicas: 2 })),
  ],
  [
    'replicas: delivery-worker may be scaled to nothing',
    PROD,
    inSpec('ScaledObject', 'delivery-worker', (s) => Object.assign(s, { minReplicaCount: 0 })),
  ],
  [
    'scale targets: api scales no Deployment',
    PROD,
    inSpec('ScaledObject', 'api', (s) => Object.assign(s, { scaleTargetRef: { name: 'apis' } })),
  ],
  [
    'missing values: delivery-worker has a fallback',
    PROD,
    inSpec('ScaledObject', 'delivery-worker', (s) => Object.assign(s, { fallback: {} })),
  ],
  [
    'missing values: pending-apns takes a missing value for 0',
    PROD,
    inTrigger('pending-apns', (metadata) => delete metadata.ignoreNullValues),
  ],
  [
    'missing values: oldest-pending replaces',
    PROD,
    inTrigger('oldest-pending', (metadata) => {
      metadata.query = `${metadata.query} or vector(0)`;
    }),
  ],
  [
    'pending work: pending-mqtt does not take the highest',
    PROD,
    inTrigger('pending-mqtt', (metadata) => {
      metadata.query = metadata.query?.replace('max(', 'sum(') ?? '';
    }),
  ],
  [
    'pending work: pending-mqtt has another threshold than CONCURRENCY 24',
    PROD,
    inTrigger('pending-mqtt', (metadata) => Object.assign(metadata, { threshold: '100' })),
  ],
  [
    'pending work: no trigger counts the batches of web-push',
    PROD,
    inSpec('ScaledObject', 'delivery-worker', (s) => s.triggers?.splice(3, 1)),
  ],
  [
    'metrics: no service has the metric carillon_waiting_batches',
    PROD,
    inTrigger('pending-fcm', (metadata) => {
      metadata.query = 'max(carillon_waiting_batches)';
    }),
  ],
  [
    'metrics: no service has the metric carillon_typo_total',
    PROD,
    inSpec('PrometheusRule', 'carillon', (s) =>
      s.groups?.push({ rules: [{ alert: 'Typo', expr: 'rate(carillon_typo_total[5m]) > 0' }] }),
    ),
  ],
  [
    'connections: connections leaves no room below MAX_CONNECTIONS 12000',
    PROD,
    inEnv('MAX_CONNECTIONS', '12000', 'device-gateway'),
  ],
  [
    'secrets as files: canary has CARILLON_API_KEY as a value',
    ALL,
    inEnv('CARILLON_API_KEY', 'key', 'canary'),
  ],
  [
    'required variables: canary has no CARILLON_APP',
    ALL,
    inEnv('CARILLON_APP_FILE', undefined, 'canary'),
  ],
  ...BROKEN_NETWORK,
];

describe('a manifest that breaks a rule is refused', () => {
  test.each(BROKEN)('%s (%s)', (line, overlay, change) => {
    const manifests = structuredClone(rendered.get(overlay) ?? []);
    change(manifests);
    expect(checkManifests(manifests)).toContainEqual(expect.stringContaining(line));
  });

  test('there is a broken manifest for every rule', () => {
    const broken = BROKEN.map(([line]) => line.split(':')[0]);
    expect(RULES.map(({ name }) => name).filter((name) => !broken.includes(name))).toEqual([]);
  });
});
