import { Text } from '@mantine/core';
import { useEffect, useState } from 'react';
import { change } from '../../api/request.ts';
import type { Webhook } from '../../api/types.ts';
import { useChange } from '../../api/use-change.ts';
import { useGet } from '../../api/use-get.ts';
import { describeResponse } from '../../lib/webhook-words.ts';

const READ_EVERY_MS = 1_000;
const LATE_MS = 30_000;

/** A test event that was requested. */
interface Requested {
  /** Time of the last response before the request. */
  before: string | undefined;
  /** The response in words, once there is one. */
  response?: string;
  isLate?: boolean;
}

/** Sends test events to a webhook, and reads its responses more often until there is a new one. */
export function useTestEvent(app: string, webhook: Webhook) {
  const path = `/apps/${app}/webhooks` as const;
  const { last } = webhook;
  const [requested, setRequested] = useState<Requested>();
  const isWaiting = requested !== undefined && requested.response === undefined;
  if (isWaiting && last !== undefined && last.at !== requested.before) {
    setRequested({ ...requested, response: describeResponse(last) });
  }
  const isReading = isWaiting && requested.isLate !== true;
  useGet(path, {}, { everyMs: isReading ? READ_EVERY_MS : false });
  useEffect(() => {
    if (!isReading) return undefined;
    const timer = setTimeout(
      () => setRequested((current) => current && { ...current, isLate: true }),
      LATE_MS,
    );
    return () => clearTimeout(timer);
  }, [isReading]);
  const send = useChange({
    run: async () => {
      const before = last?.at;
      await change('POST', `${path}/${webhook.id}/test`);
      return before;
    },
    outdated: [[path]],
    onDone: (before) => setRequested({ before }),
  });
  return { requested, send };
}

export type TestEvent = ReturnType<typeof useTestEvent>;

/** Says how far a test event is. */
export function TestEventText({ testEvent: { requested } }: { testEvent: TestEvent }) {
  if (requested === undefined) return null;
  const { response, isLate } = requested;
  const missing = isLate
    ? 'There is no response to the test event yet. Does a delivery worker take the queue webhook?'
    : 'The test event is being sent.';
  return (
    <Text fz="sm" role="status">
      {response === undefined ? missing : `Response to the test event: ${response}`}
    </Text>
  );
}
