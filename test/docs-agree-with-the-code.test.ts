import { readdirSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { expect, test } from '@jest/globals';
import { BATCH_LEASE_MS } from '../packages/core/src/batch.ts';
import { apns } from '../packages/core/src/channels/apns.ts';
import { fcm } from '../packages/core/src/channels/fcm.ts';
import { webPush } from '../packages/core/src/channels/web-push.ts';
import { LIMITS } from '../packages/core/src/limits.ts';
import { CLUSTER_SHARDS } from '../packages/presence/src/cluster-shards.ts';
import { AWAY_AFTER_MS } from '../packages/presence/src/shard-health.ts';
import { KEPT_CONNECTIONS, MAX_CONNECTIONS } from '../packages/store/src/store.ts';
import * as apnsClient from '../services/delivery-worker/src/channels/apns/client.ts';
import * as apnsPayload from '../services/delivery-worker/src/channels/apns/payload.ts';
import * as fcmClient from '../services/delivery-worker/src/channels/fcm/client.ts';
import * as fcmHttpPool from '../services/delivery-worker/src/channels/fcm/http-pool.ts';
import * as fcmPayload from '../services/delivery-worker/src/channels/fcm/payload.ts';
import * as webPushClient from '../services/delivery-worker/src/channels/web-push/http-client.ts';
import * as webPushPayload from '../services/delivery-worker/src/channels/web-push/payload.ts';
import * as webPushResponse from '../services/delivery-worker/src/channels/web-push/response.ts';
import * as appSettings from '../services/delivery-worker/src/deliver/app-settings.ts';
import * as delivery from '../services/delivery-worker/src/deliver/deliver-by-provider.ts';
import * as errorTexts from '../services/delivery-worker/src/deliver/error-texts.ts';
import * as providerClients from '../services/delivery-worker/src/deliver/provider-clients.ts';
import * as retryPolicy from '../services/delivery-worker/src/deliver/retry-policy.ts';
import { environment as workerEnvironment } from '../services/delivery-worker/src/environment.ts';
import * as fanOut from '../services/delivery-worker/src/fan-out/fan-out.ts';
import * as workers from '../services/delivery-worker/src/workers.ts';
import { environment as gatewayEnvironment } from '../services/device-gateway/src/environment.ts';
import * as backlogMetrics from '../services/scheduler/src/backlog-metrics.ts';
import { readMeasuredMemory } from './support/k8s/services.ts';

const DOCS = fileURLToPath(new URL('../docs/', import.meta.url));
const SECOND = 1_000;
const DAY_SECONDS = 86_400;
const KB = 1_024;
const CONCURRENCY = workerEnvironment.shape.CONCURRENCY.parse(undefined);
const OPEN_BATCHES_PER_PUSH = workerEnvironment.shape.OPEN_BATCHES_PER_PUSH.parse(undefined);
const BATCHES_OF_MOST_TOKENS = LIMITS.tokensPerPush / LIMITS.batchRecipients;
/** Memory by service, in MB, as docs/performance.md has measured it. */
const MEASURED_MB = readMeasuredMemory();

/**
 * The numbers that docs/*.md may quote, in the unit of the sentence. A number in the docs is followed by a comment with
 * its name: `150<!-- apns.window -->`. To mark another number, add it here.
 */
const NUMBERS: Record<string, number> = {
  'apns.window': apns.provider.window,
  'fcm.window': fcm.provider.window,
  'web-push.window': webPush.provider.window,
  'apns.payload-bytes': apnsPayload.MAX_PAYLOAD_BYTES,
  'fcm.data-bytes': fcmPayload.MAX_DATA_BYTES,
  'web-push.plaintext-bytes': webPushPayload.MAX_PLAINTEXT_BYTES,
  'apns.ttl-days': apnsPayload.MAX_TTL_SECONDS / DAY_SECONDS,
  'fcm.ttl-days': fcmPayload.MAX_TTL_MS / SECOND / DAY_SECONDS,
  'web-push.ttl-days': webPushPayload.MAX_TTL_SECONDS / DAY_SECONDS,
  'apns.deadline-seconds': apnsClient.DEADLINE_MS / SECOND,
  'fcm.deadline-seconds': fcmClient.DEADLINE_MS / SECOND,
  'web-push.deadline-seconds': webPushClient.DEADLINE_MS / SECOND,
  'apns.response-kb': apnsClient.MAX_RESPONSE_BYTES / KB,
  'fcm.response-kb': fcmHttpPool.MAX_RESPONSE_BYTES / KB,
  'web-push.response-kb': webPushResponse.MAX_BODY_BYTES / KB,
  'provider-error.characters': errorTexts.MAX_PROVIDER_ERROR_CHARACTERS,
  'app-settings.ttl-seconds': appSettings.SETTINGS_TTL_MS / SECOND,
  'credential.max-age-seconds': providerClients.MAX_AGE_MS / SECOND,
  'provider.large-batches-per-app': providerClients.MAX_LARGE_BATCHES_PER_APP,
  'lease.seconds': BATCH_LEASE_MS / SECOND,
  'progress.save-after-outcomes': delivery.SAVE_AFTER_OUTCOMES,
  'retry.jitter-percent': retryPolicy.JITTER * 100,
  'retry.base-seconds': retryPolicy.BASE_BACKOFF_MS / SECOND,
  'retry.max-minutes': retryPolicy.MAX_BACKOFF_MS / SECOND / 60,
  'retry.max-retry-after-hours': retryPolicy.MAX_RETRY_AFTER_MS / SECOND / 3_600,
  'circuit.failures': retryPolicy.FAILURES_TO_OPEN,
  'circuit.max-open-seconds': retryPolicy.MAX_OPEN_MS / SECOND,
  'circuit.auth-error-seconds': retryPolicy.AUTH_ERROR_OPEN_MS / SECOND,
  'batch.recipients': LIMITS.batchRecipients,
  'push.max-tokens': LIMITS.tokensPerPush,
  'push.batches-of-most-tokens': BATCHES_OF_MOST_TOKENS,
  'fan-out.open-batches': OPEN_BATCHES_PER_PUSH,
  'fan-out.open-recipients': OPEN_BATCHES_PER_PUSH * LIMITS.batchRecipients,
  'fan-out.lease-seconds': fanOut.LEASE_MS / SECOND,
  'fan-out.pause-ms': fanOut.NEXT_STEP_DELAY_MS,
  'mongodb.kept-connections': KEPT_CONNECTIONS,
  'mongodb.max-connections': MAX_CONNECTIONS,
  'worker.concurrency': CONCURRENCY,
  'worker.single-pushes': CONCURRENCY * workers.EMBEDDED_FACTOR,
  'worker.provider-concurrency': workers.PROVIDER_CONCURRENCY,
  'worker.workers-of-a-push': Math.ceil(OPEN_BATCHES_PER_PUSH / CONCURRENCY),
  'worker.provider-workers-of-a-push':
    OPEN_BATCHES_PER_PUSH / providerClients.MAX_LARGE_BATCHES_PER_APP,
  'worker.asked-for-most-tokens': Math.ceil(BATCHES_OF_MOST_TOKENS / CONCURRENCY),
  'backlog.max-counted': backlogMetrics.MAX_COUNTED,
  'backlog.max-age-seconds': backlogMetrics.MAX_AGE_MS / SECOND,
  'cluster.shards': CLUSTER_SHARDS.length,
  'shard.away-seconds': AWAY_AFTER_MS / SECOND,
  'gateway.max-connections': gatewayEnvironment.shape.MAX_CONNECTIONS.parse(undefined),
  'gateway.waiting-mb': gatewayEnvironment.shape.MAX_WAITING_BYTES.parse(undefined) / KB / KB,
  'measured.api-mb': MEASURED_MB.get('api') ?? 0,
  'measured.worker-mb': MEASURED_MB.get('delivery-worker') ?? 0,
  'measured.scheduler-mb': MEASURED_MB.get('scheduler') ?? 0,
  'measured.gateway-mb': MEASURED_MB.get('device-gateway') ?? 0,
  'measured.mongodb-mb': MEASURED_MB.get('MongoDB') ?? 0,
  'measured.redis-mb': MEASURED_MB.get('Redis') ?? 0,
};

interface Quotation {
  file: string;
  line: number;
  name: string;
  /** Undefined when no number stands in front of the comment. */
  value: number | undefined;
}

/** Finds the marked numbers of a text; other comments, such as those of a linter, hold no name with a dot. */
function findQuotations(file: string, text: string): Quotation[] {
  return text.split('\n').flatMap((content, index) =>
    [...content.matchAll(/([\d,.]*)<!-- ([a-z-]+\.[a-z-]+) -->/g)].map(([, digits, name = '']) => {
      const value = digits ? Number(digits.replaceAll(',', '')) : undefined;
      return { file, line: index + 1, name, value };
    }),
  );
}

function findMistakes(quotations: readonly Quotation[]): string[] {
  return quotations
    .filter(({ name, value }) => value === undefined || NUMBERS[name] !== value)
    .map(
      ({ file, line, name, value }) => `${file}:${line} ${name}: ${value}, not ${NUMBERS[name]}`,
    );
}

const QUOTATIONS = readdirSync(DOCS)
  .filter((file) => file.endsWith('.md'))
  .flatMap((file) => findQuotations(file, readFileSync(`${DOCS}${file}`, 'utf8')));

test('every marked number in the docs is the one in the code', () => {
  expect(findMistakes(QUOTATIONS)).toEqual([]);
});

test('every number of the list is quoted, so that no mark is lost', () => {
  const quoted = new Set(QUOTATIONS.map(({ name }) => name));
  expect(Object.keys(NUMBERS).filter((name) => !quoted.has(name))).toEqual([]);
});

test('a wrong number, an unknown name and a comment without a number are found', () => {
  const text = '200<!-- apns.window --> and 1<!-- no.such-name -->\nmany<!-- fcm.window -->';
  expect(findMistakes(findQuotations('a.md', text))).toEqual([
    'a.md:1 apns.window: 200, not 150',
    'a.md:1 no.such-name: 1, not undefined',
    'a.md:2 fcm.window: undefined, not 100',
  ]);
});
