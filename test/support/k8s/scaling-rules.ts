import { CHANNELS } from '../../../packages/core/src/channels.ts';
import { TARGET_PER_WORKER } from '../scaler.ts';
import { findDeployments, findVariable, type Manifest, type Trigger } from './manifest.ts';
import { listBroken, type Rule } from './rule.ts';
import { readMetricNames } from './services.ts';

const AUTOSCALERS = ['ScaledObject', 'HorizontalPodAutoscaler'];
/** Metrics of the schedulers; all count the same, so only their highest value has a meaning. */
const OF_SCHEDULERS = /carillon_(pending|oldest_pending|deferred)_/;
const metricNames = readMetricNames();

function findAutoscalers(manifests: readonly Manifest[], target: string): Manifest[] {
  return manifests.filter(
    ({ kind, spec }) => AUTOSCALERS.includes(kind) && spec?.scaleTargetRef?.name === target,
  );
}

function findPrometheusTriggers(manifests: readonly Manifest[]): Trigger[] {
  return manifests
    .filter(({ kind }) => kind === 'ScaledObject')
    .flatMap(({ spec }) => spec?.triggers ?? [])
    .filter(({ type }) => type === 'prometheus');
}

const replicas: Rule = {
  name: 'replicas',
  check: (manifests) =>
    findDeployments(manifests).flatMap(({ name, manifest }) => {
      const autoscalers = findAutoscalers(manifests, name);
      const minimum = (spec: Manifest['spec']) => spec?.minReplicaCount ?? spec?.minReplicas ?? 0;
      return listBroken({
        'has two autoscalers': autoscalers.length <= 1,
        'has replicas beside an autoscaler, which each apply would reset':
          autoscalers.length === 0 || manifest.spec?.replicas === undefined,
        'may be scaled to nothing': autoscalers.every(({ spec }) => minimum(spec) >= 1),
      }).map((sentence) => `${name} ${sentence}`);
    }),
};

const scaleTargets: Rule = {
  name: 'scale targets',
  check: (manifests) =>
    manifests
      .filter(({ kind }) => AUTOSCALERS.includes(kind))
      .filter(
        ({ spec }) =>
          !findDeployments(manifests).some(({ name }) => name === spec?.scaleTargetRef?.name),
      )
      .map(({ metadata }) => `${metadata.name} scales no Deployment`),
};

const missingValues: Rule = {
  name: 'missing values',
  check: (manifests) => [
    ...manifests
      .filter(({ kind, spec }) => kind === 'ScaledObject' && spec?.fallback !== undefined)
      .map(({ metadata }) => `${metadata.name} has a fallback, which overrides the other triggers`),
    ...findPrometheusTriggers(manifests).flatMap(({ name, metadata }) =>
      listBroken({
        'takes a missing value for 0': metadata.ignoreNullValues === 'false',
        'replaces a missing value': !/vector\(|absent\(/.test(metadata.query ?? ''),
      }).map((sentence) => `${name} ${sentence}`),
    ),
  ],
};

const pendingWork: Rule = {
  name: 'pending work',
  check(manifests) {
    const triggers = findPrometheusTriggers(manifests);
    const ofSchedulers = triggers.filter(({ metadata }) =>
      OF_SCHEDULERS.test(metadata.query ?? ''),
    );
    const isCovered = (channel: string) =>
      ofSchedulers.some(({ metadata }) => metadata.query?.includes(`channel="${channel}"`));
    return [
      ...ofSchedulers
        .filter(({ metadata }) => !metadata.query?.startsWith('max('))
        .map(({ name }) => `${name} does not take the highest value of all schedulers`),
      ...ofSchedulers
        .filter(({ metadata }) => metadata.query?.includes('carillon_pending_batches'))
        .filter(({ metadata }) => metadata.threshold !== String(TARGET_PER_WORKER))
        .map(({ name }) => `${name} has another threshold than CONCURRENCY ${TARGET_PER_WORKER}`),
      ...CHANNELS.filter((channel) => triggers.length > 0 && !isCovered(channel)).map(
        (channel) => `no trigger counts the batches of ${channel}`,
      ),
    ];
  },
};

/** Lists all expressions of PromQL. */
function findQueries(manifests: readonly Manifest[]): string[] {
  const rules = manifests.flatMap(
    ({ spec }) => spec?.groups?.flatMap((group) => group.rules) ?? [],
  );
  return [
    ...findPrometheusTriggers(manifests).map(({ metadata }) => metadata.query ?? ''),
    ...rules.map(({ expr }) => expr),
  ];
}

const metrics: Rule = {
  name: 'metrics',
  check(manifests) {
    const recorded = manifests.flatMap(
      ({ spec }) => spec?.groups?.flatMap((group) => group.rules.map(({ record }) => record)) ?? [],
    );
    const used = findQueries(manifests).flatMap((query) => query.match(/\bcarillon_\w+/g) ?? []);
    return [...new Set(used)]
      .filter((name) => !metricNames.has(name) && !recorded.includes(name))
      .filter((name) => !metricNames.has(name.replace(/_(bucket|sum|count)$/, '')))
      .map((name) => `no service has the metric ${name}`);
  },
};

/** The gateway of 18,000 connections must not be scaled at a number that it can never reach. */
const connections: Rule = {
  name: 'connections',
  check(manifests) {
    const gateway = findDeployments(manifests).find(({ service }) => service === 'device-gateway');
    if (gateway === undefined) return [];
    const most = Number(findVariable(gateway.container, 'MAX_CONNECTIONS'));
    return findPrometheusTriggers(manifests)
      .filter(({ metadata }) => metadata.query?.includes('carillon_gateway_connections'))
      .filter(({ metadata }) => !(Number(metadata.threshold) <= most * 0.8))
      .map(({ name }) => `${name} leaves no room below MAX_CONNECTIONS ${most}`);
  },
};

export const SCALING_RULES: readonly Rule[] = [
  replicas,
  scaleTargets,
  missingValues,
  pendingWork,
  metrics,
  connections,
];
