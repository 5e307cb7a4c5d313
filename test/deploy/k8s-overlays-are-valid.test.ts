import { beforeAll, describe, expect, test } from '@jest/globals';
import type { Manifest } from '../support/k8s/manifest.ts';
import { RENDERED, render } from '../support/k8s/render.ts';
import { installValidator, validate } from '../support/k8s/schemas.ts';

const rendered = new Map<string, Manifest[]>();

beforeAll(async () => {
  await installValidator();
  for (const folder of RENDERED) rendered.set(folder, await render(folder));
}, 300_000);

test.each(RENDERED)('%s obeys the schemas of Kubernetes and of the operators', async (folder) => {
  expect(await validate(rendered.get(folder) ?? [])).toBe('');
});

/** Renames a key, or sets it to a value of a wrong type, in the text of a manifest. */
const MISTAKES: [kind: string, found: string, replacement: string, message: RegExp][] = [
  ['Deployment', '"readinessProbe"', '"readinesProbe"', /readinesProbe/],
  ['Deployment', '"replicas":2', '"replicas":"two"', /two/],
  ['PodDisruptionBudget', '"maxUnavailable"', '"maxUnavailble"', /maxUnavailble/],
  ['NetworkPolicy', '"podSelector"', '"podSelectors"', /podSelectors/],
  ['ScaledObject', '"minReplicaCount"', '"minReplicas"', /minReplicas/],
  ['ScaledObject', '"minReplicaCount":2', '"minReplicaCount":"2"', /minReplicaCount|string/],
  ['Certificate', '"secretName"', '"secret"', /secret/],
  ['Gateway', '"gatewayClassName"', '"class"', /class/],
  ['HTTPRoute', '"backendRefs"', '"backends"', /backends/],
  ['TLSRoute', '"sectionName"', '"section"', /section/],
  ['PodMonitor', '"podMetricsEndpoints"', '"endpoints"', /endpoints/],
  ['MongoDBCommunity', '"members"', '"member"', /member/],
  ['MongoDBCommunity', '"members":3', '"members":"3"', /number/],
  ['MongoDBCommunity', '"name":"mongodb-agent"', '"name":"agent"', /agent/],
  ['PrometheusRule', '"expr"', '"expression"', /expression/],
];

describe('a mistake is found', () => {
  test.each(MISTAKES)('%s: %s → %s', async (kind, found, replacement, message) => {
    const manifests = [...rendered.values()].flat();
    const text = manifests
      .filter((manifest) => manifest.kind === kind)
      .map((manifest) => JSON.stringify(manifest))
      .find((candidate) => candidate.includes(found));
    const mistaken = JSON.parse(text?.replace(found, replacement) ?? '');
    expect(await validate([mistaken])).toMatch(message);
  });
});
