import { setTimeout as pause } from 'node:timers/promises';
import type { HandOver } from '@carillon/presence/hand-over';
import type { WhoIsOnline } from '@carillon/presence/who-is-online';
import type { Producers } from '@carillon/queue/producers';
import type { Store } from '@carillon/store/store';
import { createDeliverMqtt } from './channels/mqtt/deliver-mqtt.ts';
import type { DeliverByChannel } from './deliver/channel.ts';
import type { DeliverDeps } from './deliver/deliver-work.ts';
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
  return {
    leases,
    channels: { mqtt: assembleMqtt(opened) },
    readPush: async (id) => (await store.pushes.readForSending([id])).get(id),
    isSendable: store.pushes.isSendable,
    async receivedBefore({ work: { before } }) {
      if (before === undefined) return [];
      const answers = await handOver.readReplies(before.reply, before.claim);
      return [...answers].flatMap(([at, answer]) => (answer === 'acknowledged' ? [at] : []));
    },
    newerRecipients: ({ _id, app, collapse = '' }, tokens) =>
      store.collapse.newerRecipients({ _id, app, collapse }, tokens[0] ?? '', tokens.at(-1) ?? ''),
    giveBack: store.work.giveBack,
    settle: (push, settlement, work) => settleWork(settleDeps, push, settlement, work),
    now: store.clock.now,
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
    addNextStep: (push, seq, delayMs) => producers.send(push, { batches: true, seq, delayMs }),
    addFinishJob: (push) => producers.finish([push]),
  };
}
