import { setTimeout as pause } from 'node:timers/promises';
import { PROVIDER_CHANNELS, type ProviderChannelName } from '@carillon/core/credentials';
import type { SealingKeys } from '@carillon/core/sealing';
import type { ServiceContext } from '@carillon/runtime/service';
import type { Store } from '@carillon/store/store';
import { apns } from './channels/apns/client.ts';
import { fcm } from './channels/fcm/client.ts';
import { createWebPush } from './channels/web-push/client.ts';
import type { DeliverByChannel } from './deliver/channel.ts';
import { createDeliverByProvider } from './deliver/deliver-by-provider.ts';
import type { Attempt, ProviderChannel } from './deliver/provider.ts';
import { createRoutes } from './deliver/routes.ts';

/** The settings of the providers' channels. */
export interface ProviderSettings {
  CREDENTIAL_KEYS: SealingKeys;
  WEB_PUSH_HOSTS: string[];
  WEB_PUSH_CA?: string | undefined;
}

type Around = Pick<ServiceContext, 'log' | 'metrics' | 'release'> & {
  store: Store;
  onError(error: unknown): void;
};

/** Opens the ways out through providers; nothing is connected before something is sent. */
export function openProviders(
  env: ProviderSettings,
  around: Around,
): Record<ProviderChannelName, DeliverByChannel> {
  const tell = createTeller(around);
  const channels: Record<ProviderChannelName, ProviderChannel> = {
    apns,
    fcm,
    'web-push': createWebPush({
      hosts: env.WEB_PUSH_HOSTS,
      ...(env.WEB_PUSH_CA !== undefined && { ca: env.WEB_PUSH_CA }),
    }),
  };
  const opened = PROVIDER_CHANNELS.map((name) => [
    name,
    openProvider(around, env.CREDENTIAL_KEYS, name, channels[name], tell),
  ]);
  return Object.fromEntries(opened) as Record<ProviderChannelName, DeliverByChannel>;
}

type Tell = (push: string, channel: ProviderChannelName, attempt: Attempt) => void;

function createTeller({ log, metrics }: Around): Tell {
  const answers = metrics.counter('carillon_provider_answers_total', 'Answers of providers', [
    'channel',
    'kind',
  ]);
  return (push, channel, attempt) => {
    answers.add(1, { channel, kind: attempt.kind });
    if (attempt.kind === 'refused') log.warn({ push, channel, ...attempt }, 'credential refused');
    else if (attempt.kind === 'rejected') log.info({ push, channel, ...attempt }, 'rejected');
  };
}

function openProvider(
  { store: { credentials, devices, clock }, release, onError }: Around,
  keys: SealingKeys,
  name: ProviderChannelName,
  channel: ProviderChannel,
  tell: Tell,
): DeliverByChannel {
  const routes = createRoutes({
    channel,
    keys,
    load: (app) => credentials.ofChannel(app, name),
    noteRefusal: credentials.noteRefusal,
    noteAccepted: credentials.noteAccepted,
    onError,
  });
  release(name, routes.close);
  return createDeliverByProvider({
    channel: name,
    routes,
    window: channel.window,
    addresses: devices.addresses,
    flagGone: devices.flagGone,
    tell: (push, attempt) => tell(push, name, attempt),
    pause: (ms) => pause(ms),
    now: clock.now,
  });
}
