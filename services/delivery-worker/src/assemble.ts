import { setTimeout as pause } from 'node:timers/promises';
import type { ProviderChannelName } from '@carillon/core/credentials';
import type { HandOver } from '@carillon/presence/hand-over';
import type { WhoIsOnline } from '@carillon/presence/who-is-online';
import type { Producers } from '@carillon/queue/producers';
import type { Store } from '@carillon/store/store';
import { LRUCache } from 'lru-cache';
import { createDeliverMqtt } from './channels/mqtt/deliver-mqtt.ts';
import type { DeliverByChannel } from './deliver/channel.ts';
import type { DeliverDeps } from './deliver/deliver-work.ts';
import { arrangeFallBack } from './deliver/fall-back.ts';
import { settleWork } from './deliver/settle.ts';
import type { FanOutDeps } from './fan-out/fan-out.ts';
import { pageTopics } from './fan-out/page-topics.ts';

/** What this process has opened. */
export interface Opened {
  store: Store;
  producers: Producers;
  whoIsOnline: WhoIsOnline;
  handOver: HandOver;
  leases: DeliverDeps['leases'];
  retentionMs: number;
  isStopping(): boolean;
  /** The channels through providers. */
  providers: Partial<Record<ProviderChannelName, DeliverByChannel>>;
}

/** Ties the delivery to the store, the hand-over and the queue. */
export function assembleDelivery(opened: Opened): DeliverDeps {
  const { store, producers, handOver, leases, retentionMs } = opened;
  const settleDeps = {
    settle: store.work.settle,
    removeRows: store.inbox.remove,
    addFinishJob: (push: string) => producers.finish([push]),
    finishedPurgeAt: () => store.endings.purgeTime(retentionMs),
  };
  const fallBackDeps = {
    fallBackAfterMs: createFallBackSetting(store),
    withFcmToken: store.devices.withFcmToken,
    insertBatches: store.batches.insertPage,
    now: store.clock.now,
  };
  return {
    leases,
    channels: { mqtt: assembleMqtt(opened), ...opened.providers },
    readPush: async (id) => (await store.pushes.readForSending([id])).get(id),
    isSendable: store.pushes.isSendable,
    isStopping: opened.isStopping,
    async receivedBefore({ work: { before } }) {
      if (before === undefined) return [];
      const answers = await handOver.readReplies(before.reply, before.claim);
      return [...answers].flatMap(([at, answer]) => (answer === 'acknowledged' ? [at] : []));
    },
    stillOwed: store.inbox.owedAmong,
    arrangeFallBack: (push, work, tokens, outcomes) =>
      arrangeFallBack(fallBackDeps, push, work, tokens, outcomes),
    newerRecipients: ({ _id, app, collapse = '' }, tokens) =>
      store.collapse.newerRecipients({ _id, app, collapse }, tokens[0] ?? '', tokens.at(-1) ?? ''),
    giveBack: store.work.giveBack,
    saveOutcomes: store.work.saveOutcomes,
    settle: (push, settlement, work) => settleWork(settleDeps, push, settlement, work),
    now: store.clock.now,
  };
}

const SETTING_MS = 5_000;
const SETTINGS_KEPT = 1_000;

/** An app's delay for the fallback, remembered for a few seconds. */
function createFallBackSetting(store: Store): (app: string) => Promise<number | undefined> {
  const kept = new LRUCache<string, { afterMs: number | undefined }>({
    max: SETTINGS_KEPT,
    ttl: SETTING_MS,
  });
  return async (app) => {
    const known = kept.get(app);
    if (known !== undefined) return known.afterMs;
    const seconds = (await store.apps.find(app))?.fcmFallbackSeconds ?? undefined;
    const afterMs = seconds === undefined ? undefined : seconds * 1_000;
    kept.set(app, { afterMs });
    return afterMs;
  };
}

function assembleMqtt({ store, whoIsOnline, handOver }: Opened): DeliverByChannel {
  return createDeliverMqtt({
    whoIsOnline,
    handOver,
    async owe(rows) {
      const superseded = await store.inbox.owe(rows);
      await store.fullInboxes.lookAtSome(rows.map(({ token }) => token));
      return superseded;
    },
    fullInboxes: store.fullInboxes.among,
    pause: (ms) => pause(ms),
  });
}

/** Ties the fan-out to the store and the queue. */
export function assembleFanOut({ store, producers }: Opened): FanOutDeps {
  const pageDeps = {
    beginPage: store.fanOuts.beginPage,
    insertPage: store.batches.insertPage,
    subscribers: store.subscriptions.stream,
    addDeliverJob: producers.deliver,
  };
  return {
    claim: store.fanOuts.claim,
    endStep: store.fanOuts.endStep,
    release: store.batches.release,
    pageTopics: (fanOut, free, isSafe) => pageTopics(pageDeps, fanOut, free, isSafe),
    addDeliverJob: producers.deliver,
    addNextStep: (push, seq, delayMs) => producers.fanOut(push, { seq, delayMs }),
    addFinishJob: (push) => producers.finish([push]),
  };
}
