import { beforeAll, describe, expect, test } from '@jest/globals';
import { checkManifests } from '../support/k8s/check-manifests.ts';
import { deriveFlows } from '../support/k8s/flows.ts';
import type { Manifest } from '../support/k8s/manifest.ts';
import { readFlows } from '../support/k8s/policy-flows.ts';
import { RENDERED, render } from '../support/k8s/render.ts';

const manifests = new Map<string, Manifest[]>();

beforeAll(async () => {
  for (const folder of RENDERED) manifests.set(folder, await render(folder));
}, 300_000);

describe.each(RENDERED)('%s', (folder) => {
  test('every rule is obeyed', () => {
    const rendered = manifests.get(folder) ?? [];
    expect(rendered.length).toBeGreaterThan(15);
    expect(checkManifests(rendered)).toEqual([]);
  });

  test('the network policies allow exactly the flows that the settings need', () => {
    const rendered = manifests.get(folder) ?? [];
    expect(readFlows(rendered)).toEqual(deriveFlows(rendered));
  });
});
