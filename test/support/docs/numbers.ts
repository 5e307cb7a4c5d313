import { BATCH_LEASE_MS, INITIAL_LEASE_MS } from '../../../packages/core/src/batch.ts';
import { apns } from '../../../packages/core/src/channels/apns.ts';
import { fcm } from '../../../packages/core/src/channels/fcm.ts';
import { webPush } from '../../../packages/core/src/channels/web-push.ts';
import { LIMITS } from '../../../packages/core/src/limits.ts';
import { WEBHOOK_LIMITS } from '../../../packages/core/src/webhooks.ts';
import { CLUSTER_SHARDS } from '../../../packages/presence/src/cluster-shards.ts';
import { TTL_SECONDS } from '../../../packages/presence/src/keys.ts';
import { AWAY_AFTER_MS } from '../../../packages/presence/src/shard-health.ts';
import * as linkLimits from '../../../packages/runtime/src/link-limits.ts';
import { ACCEPTING_LEASE_MS } from '../../../packages/store/src/accepting-lease.ts';
import { SUSPECTED_AFTER } from '../../../packages/store/src/lapsed-claims.ts';
import { SESSION_IDLE_MS, SESSION_MAX_AGE_MS } from '../../../packages/store/src/sessions.ts';
import {
  DEVICE_CONNECTIONS,
  KEPT_CONNECTIONS,
  MAX_CONNECTIONS,
} from '../../../packages/store/src/store.ts';
import { environment as apiEnvironment } from '../../../services/api/src/environment.ts';
import { EXPORTS_PER_APP } from '../../../services/api/src/export/routes.ts';
import { REQUEST_TIMEOUTS } from '../../../services/dashboard/src/http/server.ts';
import * as apnsClient from '../../../services/delivery-worker/src/channels/apns/client.ts';
import * as apnsPayload from '../../../services/delivery-worker/src/channels/apns/payload.ts';
import * as fcmClient from '../../../services/delivery-worker/src/channels/fcm/client.ts';
import * as fcmHttpPool from '../../../services/delivery-worker/src/channels/fcm/http-pool.ts';
import * as fcmOutcome from '../../../services/delivery-worker/src/channels/fcm/outcome.ts';
import * as fcmPayload from '../../../services/delivery-worker/src/channels/fcm/payload.ts';
import * as webPushClient from '../../../services/delivery-worker/src/channels/web-push/http-client.ts';
import * as webPushPayload from '../../../services/delivery-worker/src/channels/web-push/payload.ts';
import * as webPushResponse from '../../../services/delivery-worker/src/channels/web-push/response.ts';
import * as appSettings from '../../../services/delivery-worker/src/deliver/app-settings.ts';
import * as delivery from '../../../services/delivery-worker/src/deliver/batch-progress.ts';
import * as circuit from '../../../services/delivery-worker/src/deliver/circuit.ts';
import * as errorTexts from '../../../services/delivery-worker/src/deliver/error-texts.ts';
import * as providerClients from '../../../services/delivery-worker/src/deliver/provider-clients.ts';
import * as retryPolicy from '../../../services/delivery-worker/src/deliver/retry-policy.ts';
import * as troubledRecipients from '../../../services/delivery-worker/src/deliver/troubled-recipients.ts';
import { environment as workerEnvironment } from '../../../services/delivery-worker/src/environment.ts';
import * as fanOut from '../../../services/delivery-worker/src/fan-out/fan-out.ts';
import {
  MAX_IN_FLIGHT,
  SHARED_IN_FLIGHT,
} from '../../../services/delivery-worker/src/webhooks/address-circuits.ts';
import { DEADLINE_MS as WEBHOOK_DEADLINE_MS } from '../../../services/delivery-worker/src/webhooks/client.ts';
import { MAX_FAILING_MS } from '../../../services/delivery-worker/src/webhooks/retry.ts';
import * as workers from '../../../services/delivery-worker/src/workers.ts';
import { environment as gatewayEnvironment } from '../../../services/device-gateway/src/environment.ts';
import { MAX_PACKET_BYTES } from '../../../services/device-gateway/src/frames.ts';
import * as backlogMetrics from '../../../services/scheduler/src/backlog-metrics.ts';
import { readMeasuredMemory } from '../k8s/services.ts';

import { readConstants } from './read-constants.ts';

const SECOND = 1_000;
const HOUR = 3_600_000;
const DAY = 86_400_000;
const DAY_SECONDS = 86_400;
const KB = 1_024;
const CONCURRENCY = workerEnvironment.shape.CONCURRENCY.parse(undefined);
const OPEN_BATCHES_PER_PUSH = workerEnvironment.shape.OPEN_BATCHES_PER_PUSH.parse(undefined);
const BODY_MEMORY_MB = apiEnvironment.shape.BODY_MEMORY_MB.parse(undefined);
const BATCHES_OF_MOST_TOKENS = LIMITS.tokensPerPush / LIMITS.batchRecipients;
/** Memory by service, in MB, as docs/performance.md has measured it. */
const MEASURED_MB = readMeasuredMemory();

/** Numbers that the documents quote and no other module needs: they are read from the source, and not exported for it. */
const API = {
  routing: readConstants('services/api/src/http/routing.ts'),
  response: readConstants('services/api/src/http/response.ts'),
  budget: readConstants('packages/runtime/src/body-budget.ts'),
  push: readConstants('services/api/src/push/routes.ts'),
};
const GATEWAY = {
  addresses: readConstants('services/device-gateway/src/address-limits.ts'),
  throttle: readConstants('services/device-gateway/src/accept-throttle.ts'),
  pending: readConstants('services/device-gateway/src/pending-connections.ts'),
  connection: readConstants('services/device-gateway/src/connection.ts'),
  session: readConstants('services/device-gateway/src/session.ts'),
  keepalive: readConstants('services/device-gateway/src/authenticate.ts'),
  reaper: readConstants('services/device-gateway/src/connection-reaper.ts'),
  acknowledged: readConstants('services/device-gateway/src/acknowledged-pushes.ts'),
};
const WORKER = {
  gate: readConstants('services/delivery-worker/src/deliver/send-gate.ts'),
  report: readConstants('services/delivery-worker/src/webhooks/report-webhook.ts'),
  retry: readConstants('services/delivery-worker/src/webhooks/retry.ts'),
  workers: readConstants('services/delivery-worker/src/workers.ts'),
};
const LOGIN = {
  backOff: readConstants('services/dashboard/src/login/back-off.ts'),
  passwords: readConstants('services/dashboard/src/login/passwords.ts'),
  newPassword: readConstants('services/dashboard/src/login/new-password.ts'),
};
const PUSH_WATCH = readConstants('services/dashboard/src/live/push-watch.ts');
const KEY_LOOKUP = readConstants('services/api/src/http/throttled-lookup.ts');
const SANDBOX_BODY = readConstants('services/sandbox/src/transport/read-body.ts');
const OPEN_JOB = readConstants('packages/queue/src/open-job.ts');
const RECONCILE = readConstants('services/scheduler/src/reconcile.ts');
const QUEUE_WORKERS = readConstants('packages/queue/src/workers.ts');
const FIGURES = readConstants('packages/presence/src/figures.ts');
const PROGRESS = readConstants('packages/runtime/src/progress.ts');
const EVENT_LOOP = readConstants('packages/runtime/src/event-loop.ts');
const OPENTELEMETRY = readConstants('packages/runtime/src/opentelemetry.ts');
const REDRIVES = readConstants('services/dashboard/src/failures/redrive-worker.ts');
const MIGRATE = readConstants('packages/store/src/migrate.ts');

/**
 * The numbers that the documents may quote, in the unit of the sentence. A number in the docs is followed by a comment
 * with its name: `150<!-- apns.window -->`. To mark another number, add it here.
 */
export const NUMBERS: Record<string, number> = {
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
  'circuit.recipients': circuit.SEVERAL,
  'circuit.max-open-seconds': circuit.MAX_OPEN_MS / SECOND,
  'circuit.refused-seconds': troubledRecipients.REFUSED_ROUND_MS / SECOND,
  'circuit.refused-rounds': circuit.REFUSED_ROUNDS,
  'fcm.retry-after-timeout-seconds': fcmOutcome.RETRY_AFTER_TIMEOUT_MS / SECOND,
  'batch.recipients': LIMITS.batchRecipients,
  'push.max-tokens': LIMITS.tokensPerPush,
  'push.batches-of-most-tokens': BATCHES_OF_MOST_TOKENS,
  'fan-out.open-batches': OPEN_BATCHES_PER_PUSH,
  'open-batches.min': workerEnvironment.shape.OPEN_BATCHES_PER_PUSH.unwrap().minValue ?? 0,
  'open-batches.max': workerEnvironment.shape.OPEN_BATCHES_PER_PUSH.unwrap().maxValue ?? 0,
  'fan-out.open-recipients': OPEN_BATCHES_PER_PUSH * LIMITS.batchRecipients,
  'fan-out.lease-seconds': fanOut.LEASE_MS / SECOND,
  'fan-out.pause-ms': fanOut.NEXT_STEP_DELAY_MS,
  'mongodb.device-connections': DEVICE_CONNECTIONS,
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
  'limit.trial-requests': LIMITS.requestsPerMinute.trial,
  'limit.pro-requests': LIMITS.requestsPerMinute.pro,
  'limit.wrong-keys': LIMITS.wrongKeysPerHour,
  'limit.address-registrations': LIMITS.registrationsPerAddressHour,
  'limit.app-registrations': LIMITS.registrationsPerAppHour,
  'limit.device-topic-changes': LIMITS.topicChangesPerDeviceMinute,
  'limit.address-topic-changes': LIMITS.topicChangesPerAddressMinute,
  'limit.device-topics': LIMITS.topicsPerDevice,
  'topics.unlocked': readConstants('services/api/src/topics/subscribe.ts')('UNLOCKED_TOPICS'),
  'rate-counter.max-keys': readConstants('packages/presence/src/rate-counter.ts')('MAX_KEYS'),
  'key-cache.seconds':
    readConstants('services/api/src/http/authenticate.ts')('CACHE_TTL_MS') / SECOND,
  'key-lookup.interval-ms': KEY_LOOKUP('LOOKUP_INTERVAL_MS'),
  'key-lookup.address-keys': KEY_LOOKUP('MAX_WAITING_PER_ADDRESS'),
  'key-lookup.max-keys': KEY_LOOKUP('MAX_WAITING'),
  'body.push-mb': API.push('PUSH_BODY_BYTES') / KB / KB,
  'body.topics-kb': readConstants('services/api/src/topics/routes.ts')('BODY_BYTES') / KB,
  'body.presence-kb':
    readConstants('services/api/src/devices/routes.ts')('PRESENCE_BODY_BYTES') / KB,
  'body.device-kb': API.routing('MAX_DEVICE_BODY_BYTES') / KB,
  'api.keep-alive-seconds': apiEnvironment.shape.KEEP_ALIVE_SECONDS.parse(undefined),
  'link.handled': linkLimits.MAX_HANDLED,
  'link.waiting': linkLimits.MAX_WAITING_REQUESTS,
  'link.unread-seconds': linkLimits.UNREAD_TIMEOUT_MS / SECOND,
  'body.depth': LIMITS.payloadDepth + 1,
  'body.memory-mb': BODY_MEMORY_MB,
  'body.unlimited-mb': (BODY_MEMORY_MB * 3) / 8,
  'body.owner-mb': (BODY_MEMORY_MB * 6) / 8 / 4,
  'body.large-mb': (BODY_MEMORY_MB * 6) / 8,
  'body.small-limit-mb': (BODY_MEMORY_MB * 7) / 8,
  'body.reserved-mb': BODY_MEMORY_MB / 8,
  'body.small-kb': API.budget('SMALL_BODY_BYTES') / KB,
  'body.grace-seconds': API.budget('GRACE_MS') / SECOND,
  'body.short-grace-ms': API.budget('SHORT_GRACE_MS'),
  'body.timeout-seconds': API.budget('BODY_TIMEOUT_MS') / SECOND,
  'rejected-body.discarded-mb': API.response('MAX_DISCARDED_BYTES') / KB / KB,
  'rejected-body.linger-seconds': API.response('LINGER_TIMEOUT_MS') / SECOND,
  'request.timeout-seconds':
    readConstants('services/api/src/http/server.ts')('REQUEST_TIMEOUT_MS') / SECOND,
  'request.headers-seconds':
    readConstants('services/api/src/http/server.ts')('HEADERS_TIMEOUT_MS') / SECOND,
  'request.response-seconds': API.routing('RESPONSE_TIMEOUT_MS') / SECOND,
  'request.tokens-per-second': API.push('TOKENS_PER_SECOND'),
  'registration.closed-seconds':
    readConstants('services/api/src/registration/outage-watch.ts')('HEALTHY_AFTER_MS') / SECOND,
  'overload.slow-requests': readConstants('services/api/src/http/admission.ts')(
    'MAX_SLOW_REQUESTS',
  ),
  'overload.wait-seconds':
    readConstants('services/api/src/http/waiting-requests.ts')('MAX_WAIT_MS') / SECOND,
  'overload.others-of-account':
    readConstants('services/api/src/http/waiting-requests.ts')('MAX_WAITING_PER_ACCOUNT') - 1,
  'export.per-app': EXPORTS_PER_APP,
  'retention.seconds': apiEnvironment.shape.RETENTION_SECONDS.parse(undefined),
  'accepting.lease-seconds': ACCEPTING_LEASE_MS / SECOND,
  'ending.settle-seconds':
    readConstants('packages/store/src/push-completion.ts')('SETTLE_WITHIN_MS') / SECOND,
  'accepting.retry-after-seconds': readConstants('packages/accept/src/accept-push.ts')(
    'RETRY_AFTER_SECONDS',
  ),
  'gateway.free-auth-failures': GATEWAY.addresses('FREE_AUTH_FAILURES'),
  'gateway.delay-step-seconds': GATEWAY.addresses('DELAY_STEP_MS') / SECOND,
  'gateway.max-delay-seconds': GATEWAY.addresses('MAX_DELAY_MS') / SECOND,
  'gateway.forget-seconds': 1 / GATEWAY.addresses('AUTH_FAILURE_DECAY_PER_SECOND'),
  'gateway.lookup-burst': GATEWAY.addresses('LOOKUP_BURST'),
  'gateway.lookups-per-second': GATEWAY.addresses('LOOKUPS_PER_SECOND'),
  'gateway.pending-per-address': GATEWAY.addresses('MAX_PENDING_PER_ADDRESS'),
  'gateway.connections-per-minute': GATEWAY.addresses('CONNECTIONS_PER_MINUTE'),
  'gateway.connects-per-minute': GATEWAY.addresses('CONNECTS_PER_MINUTE'),
  'gateway.takeovers-per-minute': GATEWAY.addresses('TAKEOVERS_PER_MINUTE'),
  'gateway.low-priority-sockets': GATEWAY.throttle('MAX_LOW_PRIORITY'),
  'gateway.max-wait-seconds': GATEWAY.throttle('MAX_WAIT_MS') / SECOND,
  'gateway.connect-seconds': GATEWAY.pending('CONNECT_TIMEOUT_MS') / SECOND,
  'gateway.eviction-grace-ms': GATEWAY.pending('EVICTION_GRACE_MS'),
  'gateway.shares-above-percent':
    readConstants('services/device-gateway/src/app-shares.ts')('ENFORCE_SHARES_ABOVE') * 100,
  'gateway.drain-seconds': gatewayEnvironment.shape.GATEWAY_DRAIN_SECONDS.parse(undefined),
  'keepalive.min-seconds': GATEWAY.keepalive('KEEPALIVE_MIN_SECONDS'),
  'keepalive.max-seconds': GATEWAY.keepalive('KEEPALIVE_MAX_SECONDS'),
  'packet.kb': MAX_PACKET_BYTES / KB,
  'redis.first-response-seconds':
    readConstants('packages/presence/src/redis-clients.ts')('FIRST_RESPONSE_MS') / SECOND,
  'redis.ping-seconds':
    readConstants('packages/presence/src/redis.ts')('PING_INTERVAL_MS') / SECOND,
  'connection.max-in-flight': GATEWAY.connection('MAX_IN_FLIGHT'),
  'connection.remembered-acks': GATEWAY.acknowledged('MAX_REMEMBERED'),
  'connection.always-remembered-acks': GATEWAY.acknowledged('ALWAYS_REMEMBERED'),
  'connection.buffered-kb': GATEWAY.connection('MAX_BUFFERED_BYTES') / KB,
  'connection.write-buffer-kb': GATEWAY.session('MAX_WRITE_BUFFER_BYTES') / KB,
  'connection.control-packets-per-second': GATEWAY.session('MAX_CONTROL_PACKETS_PER_SECOND'),
  'connection.progress-seconds': GATEWAY.reaper('PROGRESS_TIMEOUT_MS') / SECOND,
  'connection.held-pushes': readConstants('services/device-gateway/src/expected-rows.ts')(
    'MAX_HELD',
  ),
  'connection.rows-while-holding': readConstants('services/device-gateway/src/read-inbox.ts')(
    'MAX_ROWS_WHILE_HOLDING',
  ),
  'presence.lease-seconds': TTL_SECONDS.lease,
  'presence.lease-renewal-seconds':
    readConstants('packages/presence/src/lease.ts')('RENEW_INTERVAL_MS') / SECOND,
  'presence.refresh-seconds': TTL_SECONDS.presence / 3,
  'lease.renewal-seconds': WORKER.gate('RENEW_INTERVAL_MS') / SECOND,
  'lease.margin-seconds': WORKER.gate('LEASE_MARGIN_MS') / SECOND,
  'send-gate.state-age-ms': WORKER.gate('STATE_REFRESH_AGE_MS'),
  'send-gate.newer-age-ms': WORKER.gate('NEWER_RECIPIENTS_REFRESH_AGE_MS'),
  'send-gate.write-deadline-ms': WORKER.gate('WRITE_DEADLINE_MS'),
  'send-gate.write-age-ms': WORKER.gate('STATE_MAX_AGE_AT_WRITE_MS'),
  'dispatch.results-ms':
    WORKER.gate('WRITE_DEADLINE_MS') +
    readConstants('packages/presence/src/pending-dispatches.ts')('REPLY_GRACE_MS'),
  'presence-lookup.pause-seconds':
    readConstants('services/delivery-worker/src/channels/mqtt/apns-with-mqtt.ts')(
      'REDIS_BACKOFF_MS',
    ) / SECOND,
  'settlement.gather-ms': readConstants('packages/store/src/batch-table.ts')('SETTLE_GATHER_MS'),
  'settlement.large-recipients': readConstants('packages/store/src/batch-table.ts')(
    'LARGE_SETTLEMENT_RECIPIENTS',
  ),
  'settlement.gather-count': readConstants('packages/store/src/batch-table.ts')(
    'SETTLEMENTS_ENOUGH',
  ),
  'device-lookup.gather-ms': readConstants('packages/store/src/devices.ts')('PUSH_GATHER_MS'),
  'device-lookup.gather-many-ms': readConstants('packages/store/src/devices.ts')(
    'MANY_PUSHES_GATHER_MS',
  ),
  'device-lookup.many': readConstants('packages/core/src/batcher.ts')('MANY_CALLS'),
  'device-lookup.gather-count': readConstants('packages/store/src/devices.ts')('PUSHES_ENOUGH'),
  'device-lookup.probe-ms': readConstants('packages/store/src/devices.ts')('PROBE_EVERY_MS'),
  'suspected.after': SUSPECTED_AFTER,
  'suspected.attempts': readConstants('services/delivery-worker/src/deliver/suspected-batch.ts')(
    'ATTEMPTS_AT_ONE',
  ),
  'suspension.refresh-seconds':
    readConstants('packages/store/src/suspensions.ts')('REFRESH_MS') / SECOND,
  'provider-error.texts': errorTexts.MAX_ERROR_TEXTS,
  'open-job.max-seconds': OPEN_JOB('MAX_OPEN_MS') / SECOND,
  'open-job.key-seconds': OPEN_JOB('OPEN_MS') / SECOND,
  'reconcile.first-job-seconds': RECONCILE('FIRST_JOB_MS') / SECOND,
  'reconcile.max-waiting-seconds': RECONCILE('MAX_WAITING_MS') / SECOND,
  'open-job.entries': OPEN_JOB('MAX_ENTRIES'),
  'open-job.slow-ms': OPEN_JOB('SLOW_MS'),
  'open-job.max-busy-seconds': OPEN_JOB('MAX_BUSY_MS') / SECOND,
  'open-job.call-entries': OPEN_JOB('CALL_ENTRIES'),
  'open-job.call-interval-ms': OPEN_JOB('CALL_INTERVAL_MS'),
  'open-job.recent-ms': readConstants('packages/queue/src/producers.ts')('RECENT_JOIN_MS'),
  'initial-claim.take-ms': readConstants('packages/store/src/initial-claim.ts')('MAX_TAKE_AGE_MS'),
  'receipts.slow-ms': readConstants('packages/presence/src/window-size.ts')('SLOW_RECEIPTS_MS'),
  'receipts.fast-ms': readConstants('packages/presence/src/window-size.ts')('FAST_RECEIPTS_MS'),
  'receipts.initial-dispatches': readConstants('packages/presence/src/window-size.ts')(
    'INITIAL_DISPATCHES',
  ),
  'receipts.min-measure': readConstants('packages/presence/src/window-size.ts')('MIN_MEASURE'),
  'windows.passed-over-ms': readConstants('packages/presence/src/gateway-windows.ts')(
    'MAX_PASSED_OVER_MS',
  ),
  'initial-claim.lease-seconds': INITIAL_LEASE_MS / SECOND,
  'queue-worker.register-seconds': QUEUE_WORKERS('REGISTER_EVERY_MS') / SECOND,
  'queue-worker.registered-seconds': QUEUE_WORKERS('REGISTERED_MS') / SECOND,
  'webhook.per-app': WEBHOOK_LIMITS.perApp,
  'webhook.events-per-request': WEBHOOK_LIMITS.eventsPerRequest,
  'webhook.claimed-recipients': readConstants('packages/store/src/outbox.ts')('MAX_RECIPIENTS'),
  'webhook.lease-seconds': WORKER.report('LEASE_MS') / SECOND,
  'webhook.job-seconds': WORKER.report('JOB_MS') / SECOND,
  'webhook.concurrency': WORKER.workers('WEBHOOK_CONCURRENCY'),
  'webhook.in-flight': MAX_IN_FLIGHT,
  'webhook.shared-in-flight': SHARED_IN_FLIGHT,
  'webhook.deadline-seconds': WEBHOOK_DEADLINE_MS / SECOND,
  'webhook.response-kb':
    readConstants('services/delivery-worker/src/webhooks/client.ts')('MAX_BODY_BYTES') / KB,
  'webhook.base-delay-seconds': WORKER.retry('BASE_DELAY_MS') / SECOND,
  'webhook.max-delay-hours': WORKER.retry('MAX_DELAY_MS') / HOUR,
  'webhook.max-retry-after-hours': WORKER.retry('MAX_RETRY_AFTER_MS') / HOUR,
  'webhook.rotation-hours':
    readConstants('packages/store/src/manage-webhooks.ts')('ROTATION_OVERLAP_MS') / HOUR,
  'webhook.failing-days': MAX_FAILING_MS / DAY,
  'webhook.kept-days': readConstants('packages/store/src/unreported.ts')('KEEP_MS') / DAY,
  'password.min-characters': LOGIN.newPassword('MIN_PASSWORD'),
  'password.different-characters': LOGIN.newPassword('MIN_DIFFERENT'),
  'password.checked-at-once': LOGIN.passwords('MAX_RUNNING'),
  'password.waiting': LOGIN.passwords('MAX_WAITING'),
  'password.waiting-of-known': LOGIN.passwords('MAX_WAITING_OF_KNOWN'),
  'password.per-client': LOGIN.passwords('MAX_PER_CLIENT'),
  'login.free-attempts': LOGIN.backOff('FREE_ATTEMPTS'),
  'login.free-attempts-of-address': LOGIN.backOff('FREE_ATTEMPTS_OF_ADDRESS'),
  'login.free-attempts-of-name': LOGIN.backOff('FREE_ATTEMPTS_OF_NAME'),
  'login.max-wait-seconds': LOGIN.backOff('MAX_WAIT_MS') / SECOND,
  'login.guesses-per-day': DAY / LOGIN.backOff('MAX_WAIT_MS'),
  'login.waiting': readConstants('services/dashboard/src/login/turns.ts')('MAX_WAITING'),
  'login.turn-seconds': LOGIN.backOff('TURN_TIMEOUT_MS') / SECOND,
  'console.open-body-kb':
    readConstants('services/dashboard/src/http/routing.ts')('OPEN_BODY_BYTES') / KB,
  'console.request-seconds': REQUEST_TIMEOUTS.requestTimeout / SECOND,
  'console.headers-seconds': REQUEST_TIMEOUTS.headersTimeout / SECOND,
  'credential-file.rounds': readConstants('packages/admin/src/credential/key-rounds.ts')(
    'MAX_ROUNDS',
  ),
  'credential-file.rsa-bits': readConstants('packages/admin/src/credential/pem.ts')('MAX_RSA_BITS'),
  'credential-file.seconds':
    readConstants('packages/admin/src/credential/verify-file.ts')('VERIFY_TIMEOUT_MS') / SECOND,
  'credential-file.at-once': readConstants('services/dashboard/src/apps/file-checks.ts')(
    'MAX_RUNNING',
  ),
  'session.idle-hours': SESSION_IDLE_MS / HOUR,
  'session.max-days': SESSION_MAX_AGE_MS / DAY,
  'audit.days': MIGRATE('AUDIT_SECONDS') / DAY_SECONDS,
  'live.interval-seconds':
    readConstants('services/dashboard/src/live/live-reader.ts')('READ_INTERVAL_MS') / SECOND,
  'live.watched-pushes': readConstants('services/dashboard/src/live/routes.ts')(
    'MAX_WATCHED_PUSHES',
  ),
  'push-watch.pushes': PUSH_WATCH('MAX_PER_READ'),
  'push-watch.frequent-pushes': PUSH_WATCH('MAX_FREQUENT'),
  'push-watch.rare-interval-seconds': PUSH_WATCH('RARE_INTERVAL_MS') / SECOND,
  'send-gate.read-ms': WORKER.gate('STATE_MAX_AGE_AT_WRITE_MS') - WORKER.gate('MIN_WRITE_MS'),
  'resend.dedup-seconds':
    readConstants('packages/queue/src/producers.ts')('RESEND_DEDUP_MS') / SECOND,
  'presence-reports.seconds':
    readConstants('services/device-gateway/src/missed-notices.ts')('READ_INTERVAL_MS') / SECOND,
  'presence.ttl-seconds': TTL_SECONDS.presence,
  'presence.recheck-seconds':
    readConstants('packages/presence/src/presence-refresher.ts')('RECHECK_WINDOW_MS') / SECOND,
  'webhook.refresh-seconds': readConstants('packages/store/src/webhooks.ts')('REFRESH_MS') / SECOND,
  'figures.interval-seconds':
    readConstants('packages/presence/src/figures-writer.ts')('INTERVAL_MS') / SECOND,
  'figures.gauge-seconds': FIGURES('MAX_GAUGE_AGE_MS') / SECOND,
  'figures.watched-seconds': FIGURES('WATCHED_TTL_SECONDS'),
  'figures.kept-hours': (FIGURES('FIGURES_TTL_SECONDS') * SECOND) / HOUR,
  'figures.counts-arrive-seconds':
    readConstants('services/dashboard/web/src/lib/chart-scale.ts')('COUNTS_ARRIVE_WITHIN_MS') /
    SECOND,
  'idempotency.kept-hours':
    (readConstants('packages/store/src/idempotency-keys.ts')('KEY_DOCUMENT_SECONDS') * SECOND) /
    HOUR,
  'redrive.kept-days': MIGRATE('REDRIVE_SECONDS') / DAY_SECONDS,
  'redrive.viewer-seconds': REDRIVES('VIEWER_INTERVAL_MS') / SECOND,
  'redrive.wait-seconds': REDRIVES('WAIT_MS') / SECOND,
  'migrate.lease-seconds': readConstants('packages/store/src/schema.ts')('LEASE_MS') / SECOND,
  'start.max-delay-seconds':
    readConstants('packages/runtime/src/start-conditions.ts')('MAX_DELAY_MS') / SECOND,
  'stop.seconds': readConstants('packages/runtime/src/service.ts')('STOP_TIMEOUT_MS') / SECOND,
  'progress.unready-seconds': PROGRESS('UNREADY_AFTER_MS') / SECOND,
  'progress.dead-seconds': PROGRESS('DEAD_AFTER_MS') / SECOND,
  'event-loop.late-seconds': EVENT_LOOP('LATE_MS') / SECOND,
  'event-loop.unready-seconds': EVENT_LOOP('UNREADY_AFTER_MS') / SECOND,
  'event-loop.dead-seconds': EVENT_LOOP('DEAD_AFTER_MS') / SECOND,
  'tracing.tick-links': RECONCILE('MAX_LINKS'),
  'tracing.replays-per-second': readConstants('services/device-gateway/src/replay-spans.ts')(
    'MAX_SPANS_PER_SECOND',
  ),
  'tracing.queued-spans': OPENTELEMETRY('MAX_QUEUED_SPANS'),
  'tracing.spans-per-export': OPENTELEMETRY('SPANS_PER_EXPORT'),
  'tracing.export-seconds': OPENTELEMETRY('EXPORT_TIMEOUT_MS') / SECOND,
  'tracing.stop-seconds':
    readConstants('packages/runtime/src/tracing.ts')('STOP_TIMEOUT_MS') / SECOND,
  'gateway.certificate-seconds':
    readConstants('services/device-gateway/src/tls-listener.ts')('CHECK_INTERVAL_MS') / SECOND,
  'web-client.subscribe-seconds':
    readConstants('packages/web-client/carillon-web-push.js')('SUBSCRIBE_MS') / SECOND,
  'sandbox.body-kb': SANDBOX_BODY('MAX_BODY_BYTES') / KB,
  'sandbox.sent-mb': SANDBOX_BODY('MAX_SENT_BYTES') / KB / KB,
  'sandbox.control-mb':
    readConstants('services/sandbox/src/control/route.ts')('MAX_BODY_BYTES') / KB / KB,
  'sandbox.request-seconds':
    readConstants('services/sandbox/src/control/server.ts')('REQUEST_TIMEOUT_MS') / SECOND,
  'fcm.max-fallback-seconds': readConstants('services/cli/src/app.ts')('MAX_FALLBACK_SECONDS'),
  'measured.api-mb': MEASURED_MB.get('api') ?? 0,
  'measured.worker-mb': MEASURED_MB.get('delivery-worker') ?? 0,
  'measured.scheduler-mb': MEASURED_MB.get('scheduler') ?? 0,
  'measured.gateway-mb': MEASURED_MB.get('device-gateway') ?? 0,
  'measured.mongodb-mb': MEASURED_MB.get('MongoDB') ?? 0,
  'measured.redis-mb': MEASURED_MB.get('Redis') ?? 0,
};
