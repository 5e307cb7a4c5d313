import { beforeAll, expect, test } from '@jest/globals';
import { CHANNELS } from '../../packages/core/src/channels.ts';
import type { Spec } from '../support/k8s/manifest.ts';
import { render } from '../support/k8s/render.ts';
import { desiredWorkers, type ScalerBounds } from '../support/scaler.ts';

/** Largest number of batches that a push to a topic has released at once. */
const MOST_BATCHES = 64;
/** The same where one worker keeps up with the reading of the subscribers. */
const USUAL_BATCHES = 7;

let spec: Spec;
let bounds: ScalerBounds;
beforeAll(async () => {
  const manifests = await render('k8s/overlays/prod');
  const scaler = manifests.find(
    ({ kind, metadata }) => kind === 'ScaledObject' && metadata.name === 'delivery-worker',
  );
  spec = scaler?.spec ?? {};
  bounds = {
    targetPerWorker: Number(spec.triggers?.[0]?.metadata.threshold),
    min: Number(spec.minReplicaCount),
    max: Number(spec.maxReplicaCount),
  };
}, 120_000);

test('one target is valid for the batches of every channel', () => {
  const thresholds = spec.triggers
    ?.filter(({ metadata }) => metadata.query?.includes('carillon_pending_batches'))
    .map(({ metadata }) => Number(metadata.threshold));
  expect(thresholds).toEqual(CHANNELS.map(() => bounds.targetPerWorker));
});

test.each([
  ['nothing', 0, 2],
  ['a large topic that one worker keeps up with', USUAL_BATCHES, 2],
  ['a large topic that no worker keeps up with', MOST_BATCHES, 3],
  ['ten such topics', 10 * MOST_BATCHES, 20],
])('%s needs the workers that it can use', (_work, pending, workers) => {
  expect(desiredWorkers([pending], bounds, 2)).toBe(workers);
});

test('workers that are busy without pending batches are scaled by their CPU', () => {
  expect(spec.triggers?.map(({ type }) => type)).toContain('cpu');
});
