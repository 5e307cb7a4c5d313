import type { ProviderChannelName } from '@carillon/core/channels';
import { describe, expect, test } from '@jest/globals';
import {
  type DocumentedAnswer,
  readAnswersTable,
} from '../../../test/support/providers/answers-table.ts';
import { apnsOutcome, toApnsResponse } from '../src/channels/apns/outcome.ts';
import { jsonOrText } from '../src/channels/fcm/json-or-text.ts';
import { fcmOutcome } from '../src/channels/fcm/outcome.ts';
import { outcomeOfResponse } from '../src/channels/web-push/outcome.ts';
import type { Attempt } from '../src/deliver/provider.ts';
import { CHANNELS } from './channels-under-test.ts';
import { sendTo, useProvider } from './provider-under-test.ts';

const LOST = Object.assign(new Error('the connection was lost'), { code: 'ECONNRESET' });
const TIMEOUT = Object.assign(new Error('no response in time'), { code: 'ETIMEDOUT' });
const CONCERNS = {
  connection: 'connection',
  recipient: 'recipient',
  upstream: 'recipient; server if several',
};

const attempts: Record<ProviderChannelName, (documented: DocumentedAnswer) => Attempt> = {
  apns({ answer, http }) {
    if (http !== undefined) {
      const { status, headers, body: text } = http;
      return apnsOutcome(toApnsResponse({ kind: 'response', status, headers, text }));
    }
    const isUnprocessed = answer === 'unprocessed';
    const error = answer === 'timeout' ? TIMEOUT : LOST;
    return apnsOutcome(toApnsResponse({ kind: 'failed', error, isUnprocessed }));
  },
  fcm({ answer, http }) {
    if (http?.status === 200) return fcmOutcome({ kind: 'accepted' });
    if (http !== undefined) {
      const { status, body } = http;
      return fcmOutcome({ kind: 'response', status, body: jsonOrText(body) });
    }
    const kind = answer === 'timeout' ? 'timeout' : 'no-response';
    return fcmOutcome({ kind, detail: answer });
  },
  'web-push'({ answer, http }) {
    if (http !== undefined) {
      const { status, headers, body: text } = http;
      return outcomeOfResponse({ status, headers, text }, Date.now());
    }
    const error = answer === 'timeout' ? 'ETIMEDOUT' : 'ECONNRESET';
    return outcomeOfResponse({ error, isStale: answer === 'unprocessed' }, Date.now());
  },
};

/** Describes an attempt in the words of the table. */
function describeAttempt(attempt: Attempt) {
  switch (attempt.kind) {
    case 'gone':
      return { concerns: 'recipient', effect: 'gone', flag: attempt.flag };
    case 'rejected':
      return { concerns: 'recipient', effect: attempt.reason };
    case 'retry': {
      const effect = attempt.scope === 'connection' ? 'repeated' : 'deferred';
      return { concerns: CONCERNS[attempt.scope], effect };
    }
    case 'auth-error':
      return { concerns: 'recipient; credential if several', effect: 'refused' };
    default:
      return { concerns: 'recipient', effect: attempt.kind };
  }
}

const table = readAnswersTable();

describe.each(['apns', 'fcm', 'web-push'] as const)('%s', (name) => {
  const provider = useProvider(CHANNELS[name].connect);
  const answers = table.filter(({ channel }) => channel === name);
  const flag = name === 'web-push' ? 'unsubscribed' : 'uninstalled';
  const meaningOf = ({ concerns, effect }: DocumentedAnswer) => ({
    ...{ concerns, effect },
    ...(effect === 'gone' && { flag }),
  });

  test.each(answers)('$answer: $effect', (documented) => {
    expect(describeAttempt(attempts[name](documented))).toEqual(meaningOf(documented));
  });

  test.each(answers.filter(({ http }) => http !== undefined))(
    '$answer as a response of the provider: $effect',
    async (documented) => {
      const { answer, http } = documented;
      const address = await CHANNELS[name].createAddress(provider.sandbox, 'device');
      await provider.sandbox.scriptPermanently(name, address.address, { ...http });
      const [attempt] = await sendTo(provider.client, [address]);
      expect(describeAttempt(attempt as Attempt)).toEqual(meaningOf(documented));
      // A refused access token of Google is renewed, and its request sent again.
      const isSentAgain = name === 'fcm' && /^401 (UNAUTH|without)/.test(answer);
      const requests = await provider.sandbox.receivedOver(name, address.address);
      expect(requests).toHaveLength(isSentAgain ? 2 : 1);
      const detail = expect.stringMatching(`^${http?.status} ?`);
      if (attempt?.kind !== 'sent') expect(attempt).toMatchObject({ detail });
    },
  );

  test('the table has each effect', () => {
    const effects = ['sent', 'gone', 'deferred', 'refused', 'rejected-by-provider'];
    expect(answers.map(({ effect }) => effect)).toEqual(
      expect.arrayContaining([...effects, 'wrong-credential']),
    );
  });
});
