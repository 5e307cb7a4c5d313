import { type ProviderChannelName, providerWindowOf } from '@carillon/core/channels';
import type { SealingKeys } from '@carillon/core/sealing';
import type { AllowedPushHosts } from '@carillon/core/web-push-endpoint';
import type { Figures } from '@carillon/presence/figures-writer';
import type { ServiceContext } from '@carillon/runtime/service';
import type { Store } from '@carillon/store/store';
import { createAcceptedRecorder } from './deliver/accepted-devices.ts';
import type { GetAppSettings } from './deliver/app-settings.ts';
import type { DeliverByChannel } from './deliver/channel.ts';
import { type AttemptResult, createDeliverByProvider } from './deliver/deliver-by-provider.ts';
import type { LoadProviderChannel } from './deliver/provider.ts';
import { createProviderClientPool, type ProviderClientPool } from './deliver/provider-clients.ts';

/** Settings of the channels through providers. */
export interface ProviderSettings {
  CREDENTIAL_KEYS?: SealingKeys | undefined;
  WEB_PUSH_HOSTS: AllowedPushHosts;
  WEB_PUSH_CA?: string | undefined;
  WEB_PUSH_CONTACT?: string | undefined;
}

type ProviderContext = Pick<ServiceContext, 'log' | 'metrics' | 'release'> & {
  store: Pick<Store, 'apps' | 'credentials' | 'devices' | 'clock'>;
  figures: Pick<Figures, 'reportCircuits'>;
  getAppSettings: GetAppSettings;
  onError(error: unknown): void;
};

/**
 * Creates the deliveries of these channels through providers; the first request opens a connection.
 *
 * @throws Error if a channel is opened without CREDENTIAL_KEYS
 */
export function openProviders(
  env: ProviderSettings,
  names: readonly ProviderChannelName[],
  context: ProviderContext,
): Partial<Record<ProviderChannelName, DeliverByChannel>> {
  const { store, getAppSettings, release, onError } = context;
  const report = createAttemptReporter(context);
  const loaders = createLoaders(env);
  const accepted = createAcceptedRecorder(store, onError);
  release('accepted devices', accepted.stop);
  const clientPools: Partial<Record<ProviderChannelName, ProviderClientPool>> = {};
  exposeCircuits(context.metrics, clientPools);
  context.figures.reportCircuits(function* () {
    for (const { listOpenCircuits } of Object.values(clientPools)) yield* listOpenCircuits();
  });
  const { CREDENTIAL_KEYS: keys } = env;
  const deliveries = names.map((name) => {
    if (keys === undefined) throw new Error(`CREDENTIAL_KEYS are required for ${name}`);
    const clientPool = createProviderClientPool({
      name,
      loadChannel: loaders[name],
      keys,
      credentials: store.credentials,
      onError,
    });
    clientPools[name] = clientPool;
    release(name, clientPool.close);
    const reportAttempt = (push: string, result: AttemptResult) => report(push, name, result);
    const delivery = {
      name,
      clientPool,
      window: providerWindowOf(name),
      store,
      getAppSettings,
      report: reportAttempt,
      accepted,
    };
    return [name, createDeliverByProvider(delivery)] as const;
  });
  return Object.fromEntries(deliveries);
}

/**
 * Creates the functions that load a channel with its provider's library. A library takes about ten megabytes, so it is
 * loaded when the first app with a credential needs it.
 */
function createLoaders({
  WEB_PUSH_HOSTS: hosts,
  WEB_PUSH_CA: ca,
  WEB_PUSH_CONTACT: contact,
}: ProviderSettings): Record<ProviderChannelName, LoadProviderChannel> {
  return {
    apns: async () => (await import('./channels/apns/client.ts')).apns,
    fcm: async () => (await import('./channels/fcm/client.ts')).fcm,
    'web-push': async () => {
      const { createWebPush } = await import('./channels/web-push/client.ts');
      return createWebPush({ hosts, contact, ...(ca !== undefined && { ca }) });
    },
  };
}

function createAttemptReporter({ log, metrics }: Pick<ProviderContext, 'log' | 'metrics'>) {
  const responsesCounter = metrics.createCounter('carillon_provider_answers_total');
  return (push: string, channel: ProviderChannelName, result: AttemptResult): void => {
    responsesCounter.add(1, { channel, kind: result.kind });
    if (result.kind === 'refused') log.warn({ push, channel, ...result }, 'credential refused');
    else if (result.kind === 'rejected') log.info({ push, channel, ...result }, 'rejected');
  };
}

/** Exposes the number of circuits by state; a state without a circuit is 0, so that alerts find a value. */
function exposeCircuits(
  metrics: ProviderContext['metrics'],
  clientPools: Partial<Record<ProviderChannelName, Pick<ProviderClientPool, 'countCircuits'>>>,
): void {
  metrics.createGauge('carillon_provider_circuits', () =>
    Object.entries(clientPools).flatMap(([channel, { countCircuits }]) =>
      Object.entries(countCircuits()).map(([state, value]) => ({
        labels: { channel, state },
        value,
      })),
    ),
  );
}
