import { Button, Group } from '@mantine/core';
import { lazy, Suspense, useState } from 'react';
import { change } from '../../api/request.ts';
import type { Webhook } from '../../api/types.ts';
import { useChange } from '../../api/use-change.ts';
import { confirm } from '../../parts/confirm.tsx';
import { useMay } from '../../shell/session.ts';
import type { TestEvent } from './webhook-test-event.tsx';

const ReplayForm = lazy(async () => ({
  default: (await import('./replay-form.tsx')).ReplayForm,
}));

const WebhookForm = lazy(async () => ({
  default: (await import('./webhook-form.tsx')).WebhookForm,
}));

const BUTTON = { size: 'compact-xs', variant: 'default' } as const;

interface WebhookActionsProps {
  app: string;
  webhook: Webhook;
  name: string;
  eventNames: readonly string[];
  testEvent: TestEvent;
  /** Is given a new secret. */
  onSecret: (secret: string) => void;
}

/** Shows the buttons of a webhook that the operator's role may use. */
export function WebhookActions(props: WebhookActionsProps) {
  const { app, webhook, name, testEvent } = props;
  const maySend = useMay('operator');
  const mayChange = useMay('admin');
  const [isReplaying, setReplaying] = useState(false);
  return (
    <Group gap="xs">
      {maySend && (
        <>
          {webhook.state !== 'off' && (
            <Button
              {...BUTTON}
              loading={testEvent.send.isPending}
              onClick={() => testEvent.send.mutate()}
            >
              Send a test event
            </Button>
          )}
          <Button {...BUTTON} onClick={() => setReplaying(true)}>
            Replay
          </Button>
        </>
      )}
      {mayChange && (
        <>
          <Edit {...props} />
          <Changes {...props} />
        </>
      )}
      {isReplaying && (
        <Suspense>
          <ReplayForm {...{ app, webhook, name }} onClose={() => setReplaying(false)} />
        </Suspense>
      )}
    </Group>
  );
}

function Edit({ app, webhook, name, eventNames }: WebhookActionsProps) {
  const [isOpen, setOpen] = useState(false);
  return (
    <>
      <Button {...BUTTON} onClick={() => setOpen(true)}>
        Edit
      </Button>
      {isOpen && (
        <Suspense>
          <WebhookForm
            title={`Edit ${name}`}
            {...{ app, webhook, eventNames }}
            onClose={() => setOpen(false)}
          />
        </Suspense>
      )}
    </>
  );
}

function Changes({ app, webhook: { id, state }, name, onSecret }: WebhookActionsProps) {
  const list = `/apps/${app}/webhooks` as const;
  const path = `${list}/${id}` as const;
  const outdated = [[list]];
  const rotate = useChange({
    run: () => change('POST', `${path}/rotate`),
    outdated,
    onDone: ({ secret }) => onSecret(secret),
  });
  const turn = useChange({
    run: (to: 'on' | 'off') => change('POST', `${path}/${to}`),
    outdated,
  });
  const remove = useChange({
    run: () => change('DELETE', path),
    outdated,
    done: 'The webhook is removed.',
  });
  const askToRotate = () =>
    confirm({
      title: `Create a new secret for ${name}?`,
      text: 'For a day, requests are signed with the present secret too. An older secret no longer signs requests.',
      action: 'Create',
      isDangerous: false,
      onConfirm: () => rotate.mutate(),
    });
  const askToTurnOff = () =>
    confirm({
      title: `Turn ${name} off?`,
      text: 'Nothing is sent to it any more. Pushes that are accepted while it is off are reported by a replay only.',
      action: 'Turn it off',
      onConfirm: () => turn.mutate('off'),
    });
  const askToRemove = () =>
    confirm({
      title: `Remove ${name}?`,
      text: 'Events that were not sent yet are discarded. This can’t be undone.',
      action: 'Remove it',
      onConfirm: () => remove.mutate(),
    });
  return (
    <>
      <Button {...BUTTON} loading={rotate.isPending} onClick={askToRotate}>
        Rotate the secret
      </Button>
      {state === 'off' ? (
        <Button {...BUTTON} loading={turn.isPending} onClick={() => turn.mutate('on')}>
          Turn on
        </Button>
      ) : (
        <Button {...BUTTON} loading={turn.isPending} onClick={askToTurnOff}>
          Turn off
        </Button>
      )}
      <Button {...BUTTON} loading={remove.isPending} onClick={askToRemove}>
        Remove
      </Button>
    </>
  );
}
