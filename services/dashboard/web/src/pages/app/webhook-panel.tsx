import { Alert, Stack, Text } from '@mantine/core';
import type { ReactNode } from 'react';
import type { Webhook } from '../../api/types.ts';
import { formatCount } from '../../lib/times.ts';
import { describeOff, describeResponse, webhookStateLabel } from '../../lib/webhook-words.ts';
import { Facts } from '../../parts/facts.tsx';
import { Id } from '../../parts/id.tsx';
import { Panel } from '../../parts/panel.tsx';
import { Ago, Time } from '../../parts/time.tsx';
import { WebhookActions } from './webhook-actions.tsx';
import { WebhookRequests } from './webhook-requests.tsx';
import { TestEventText, useTestEvent } from './webhook-test-event.tsx';

interface WebhookPanelProps {
  app: string;
  webhook: Webhook;
  name: string;
  /** `pending` is not counted further. */
  maxPendingCounted: number;
  eventNames: readonly string[];
  /** Is given a new secret. */
  onSecret: (secret: string) => void;
}

/** Shows a webhook: its state, its receiver's responses, and what is not sent yet. */
export function WebhookPanel(props: WebhookPanelProps) {
  const { app, webhook, name, maxPendingCounted, eventNames, onSecret } = props;
  const testEvent = useTestEvent(app, webhook);
  return (
    <Panel
      title={name}
      note={webhookStateLabel(webhook)}
      actions={<WebhookActions {...{ app, webhook, name, eventNames, testEvent, onSecret }} />}
    >
      <Stack gap="sm">
        <Trouble webhook={webhook} />
        <TestEventText testEvent={testEvent} />
        <Facts facts={[...listResponses(webhook), ...listAbout(webhook, maxPendingCounted)]} />
        <WebhookRequests {...{ app, webhook, name }} />
      </Stack>
    </Panel>
  );
}

/** Says why a webhook is off, or since when its requests fail. */
function Trouble({ webhook }: { webhook: Webhook }) {
  const { state, offAt, failingSince, retryAt } = webhook;
  if (state === 'on') return null;
  if (state === 'off') {
    return (
      <TroubleAlert title={describeOff(webhook)}>
        Nothing is sent to it since <Time at={offAt} />. Once it is on again, replay the time in
        which it was off.
      </TroubleAlert>
    );
  }
  return (
    <TroubleAlert title="Requests fail">
      Since <Time at={failingSince} />. The next one is due{' '}
      {retryAt === undefined ? 'now' : <Ago at={retryAt} />}. After five days of failures the
      webhook is turned off.
    </TroubleAlert>
  );
}

function TroubleAlert({ title, children }: { title: ReactNode; children: ReactNode }) {
  return (
    <Alert
      color="red"
      variant="outline"
      p="xs"
      title={title}
      styles={{ title: { color: 'var(--mantine-color-error)' } }}
    >
      <Text fz="sm">{children}</Text>
    </Alert>
  );
}

type Fact = readonly [string, ReactNode];

function listResponses({ last, lastSuccessAt, failures }: Webhook): Fact[] {
  const response =
    last === undefined ? (
      'None yet'
    ) : (
      <>
        {describeResponse(last)}, <Ago at={last.at} />
      </>
    );
  return [
    ['Last response', response],
    ['Last success', <Ago key="success" at={lastSuccessAt} />],
    ...(failures === undefined ? [] : [['Failures in a row', formatCount(failures)] as const]),
  ];
}

function listAbout(webhook: Webhook, maxPendingCounted: number): Fact[] {
  const { id, events, pending, dropped, createdAt, previousSecretEndsAt } = webhook;
  const counted = formatCount(pending);
  const isRotating = Date.parse(previousSecretEndsAt ?? '') > Date.now();
  return [
    ['Pending pushes and devices', pending < maxPendingCounted ? counted : `${counted} or more`],
    ...(dropped === undefined ? [] : [['Events dropped unsent', formatCount(dropped)] as const]),
    ...(isRotating
      ? [
          [
            'Previous secret signs until',
            <Time key="previous" at={previousSecretEndsAt} />,
          ] as const,
        ]
      : []),
    ['Events', events.join(', ')],
    ['Added', <Time key="added" at={createdAt} />],
    ['Id', <Id key="id" id={id} label="Copy the webhook’s id" />],
  ];
}
