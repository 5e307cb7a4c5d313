import { Button, Group, Stack, Text } from '@mantine/core';
import { lazy, Suspense, useState } from 'react';
import type { Webhook } from '../../api/types.ts';
import { useGet } from '../../api/use-get.ts';
import { CodeBlock } from '../../parts/code-block.tsx';
import { Empty } from '../../parts/empty.tsx';
import { Loaded } from '../../parts/loaded.tsx';
import { SecretDialog } from '../../parts/secret-dialog.tsx';
import { useMay } from '../../shell/session.ts';
import { WebhookPanel } from './webhook-panel.tsx';

const WebhookForm = lazy(async () => ({
  default: (await import('./webhook-form.tsx')).WebhookForm,
}));

const READ_EVERY_MS = 10_000;

const RECEIVER = `import { Webhook } from 'standardwebhooks'; // npm install standardwebhooks

const webhook = new Webhook(process.env.WEBHOOK_SECRET);

// In the handler of POST, with the body as text:
webhook.verify(body, request.headers); // throws if the signature is wrong
for (const { id, type, data } of JSON.parse(body).events) console.log(id, type, data);
response.writeHead(204).end();`;

/** Lists an app's webhooks, adds and changes them. A secret is shown once, and of an address only the host. */
export function WebhooksTab({ app }: { app: string }) {
  const query = useGet(`/apps/${app}/webhooks`, {}, { everyMs: READ_EVERY_MS });
  const mayChange = useMay('admin');
  const [isAdding, setAdding] = useState(false);
  const [secret, setSecret] = useState<string>();
  const { data } = query;
  const isFull = data !== undefined && data.items.length >= data.limit;
  return (
    <Stack gap="md">
      <Group justify="space-between">
        <Text fz="sm" c="dimmed" maw={640}>
          An app’s events are sent to its webhooks: what became of its pushes and devices. Of an
          address only the host is shown, because the rest often holds a secret.
          {isFull && ` An app has at most ${data.limit} webhooks.`}
        </Text>
        {mayChange && (
          <Button size="xs" disabled={data === undefined || isFull} onClick={() => setAdding(true)}>
            Add a webhook
          </Button>
        )}
      </Group>
      <Loaded query={query} height={240}>
        {({ items, maxPendingCounted, eventNames }) =>
          items.length === 0 ? (
            <NoWebhooks mayChange={mayChange} />
          ) : (
            items.map((webhook) => (
              <WebhookPanel
                key={webhook.id}
                name={nameOf(webhook, items)}
                {...{ app, webhook, maxPendingCounted, eventNames, onSecret: setSecret }}
              />
            ))
          )
        }
      </Loaded>
      {isAdding && data !== undefined && (
        <Suspense>
          <WebhookForm
            title="Add a webhook"
            app={app}
            eventNames={data.eventNames}
            onClose={() => setAdding(false)}
            onSecret={setSecret}
          />
        </Suspense>
      )}
      <SecretDialog
        title="Secret of the webhook"
        note="The receiver checks the signatures of requests with it. This is the only time that it is shown."
        secret={secret}
        onClose={() => setSecret(undefined)}
      />
    </Stack>
  );
}

/** Returns the host, and where several webhooks have it, the end of the id. */
function nameOf({ id, host }: Webhook, all: readonly Webhook[]): string {
  const isShared = all.some((other) => other.id !== id && other.host === host);
  return isShared ? `${host} (…${id.slice(-4)})` : host;
}

function NoWebhooks({ mayChange }: { mayChange: boolean }) {
  return (
    <Stack gap="xs">
      <Empty title="No webhooks yet">
        A webhook is an address of your backend to which Carillon sends events: ends of pushes,
        outcomes of recipients, changes of devices. A receiver checks the signature, as below;{' '}
        {mayChange ? 'add its address then.' : 'an admin adds its address then.'} The file
        docs/use/webhooks.md lists the events and what is guaranteed.
      </Empty>
      <CodeBlock text={RECEIVER} label="A receiver" copy="Copy the receiver" />
    </Stack>
  );
}
