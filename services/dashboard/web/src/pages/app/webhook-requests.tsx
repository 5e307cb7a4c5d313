import { Button, Code, Group, Stack, Text } from '@mantine/core';
import { useState } from 'react';
import { change } from '../../api/request.ts';
import type { Webhook, WebhookRequest } from '../../api/types.ts';
import { useChange } from '../../api/use-change.ts';
import { useGet } from '../../api/use-get.ts';
import { formatDuration } from '../../lib/times.ts';
import { describeRequest, describeResponse } from '../../lib/webhook-words.ts';
import { type Column, ListTable } from '../../parts/list-table.tsx';
import { Loaded } from '../../parts/loaded.tsx';
import { Time } from '../../parts/time.tsx';
import { useMay } from '../../shell/session.ts';

const READ_EVERY_MS = 5_000;
const BUTTON = { size: 'compact-xs', variant: 'default' } as const;

interface WebhookRequestsProps {
  app: string;
  webhook: Webhook;
  name: string;
}

/** Shows the last requests to a webhook once they are asked for. */
export function WebhookRequests(props: WebhookRequestsProps) {
  const [isOpen, setOpen] = useState(false);
  return (
    <Stack gap="xs">
      <Group>
        <Button
          {...BUTTON}
          aria-expanded={isOpen}
          aria-label={`Requests to ${props.name}`}
          onClick={() => setOpen(!isOpen)}
        >
          Requests
        </Button>
      </Group>
      {isOpen && <Requests {...props} />}
    </Stack>
  );
}

function Requests({ app, webhook, name }: WebhookRequestsProps) {
  const path = `/apps/${app}/webhooks/${webhook.id}/requests` as const;
  const query = useGet(path, {}, { everyMs: READ_EVERY_MS });
  const mayResend = useMay('operator') && webhook.state !== 'off';
  const resend = useChange({
    run: (request: string) => change('POST', `${path}/${request}/resend`),
    outdated: [[path]],
    done: 'The request is sent again within seconds.',
  });
  const columns: Column<WebhookRequest>[] = [
    ...COLUMNS,
    ...(mayResend
      ? [
          {
            accessor: 'id' as const,
            title: 'Again',
            render: ({ id, at }: WebhookRequest) => (
              <Button
                {...BUTTON}
                aria-label={`Resend the request of ${at}`}
                loading={resend.isPending && resend.variables === id}
                onClick={() => resend.mutate(id)}
              >
                Resend
              </Button>
            ),
          },
        ]
      : []),
  ];
  return (
    <Loaded query={query} height={120}>
      {({ items }) =>
        items.length === 0 ? (
          <Text fz="sm" c="dimmed">
            No requests in the last seven days.
          </Text>
        ) : (
          <ListTable {...{ items, columns }} idOf={({ id }) => id} label={`Requests to ${name}`} />
        )
      }
    </Loaded>
  );
}

const COLUMNS: Column<WebhookRequest>[] = [
  { accessor: 'at', title: 'Time', render: ({ at }) => <Time at={at} /> },
  { accessor: 'status', title: 'Response', render: (request) => <Response request={request} /> },
  {
    accessor: 'milliseconds',
    title: 'Took',
    textAlign: 'right',
    render: ({ milliseconds }) => formatDuration(milliseconds),
  },
  { accessor: 'types', title: 'Events', render: (request) => describeRequest(request) },
];

function Response({ request }: { request: WebhookRequest }) {
  const { answer, at } = request;
  const [isOpen, setOpen] = useState(false);
  return (
    <Stack gap={4} align="flex-start">
      <Group gap="xs">
        <span>{describeResponse(request)}</span>
        {answer !== undefined && (
          <Button
            {...BUTTON}
            aria-expanded={isOpen}
            aria-label={`Answer to the request of ${at}`}
            onClick={() => setOpen(!isOpen)}
          >
            Answer
          </Button>
        )}
      </Group>
      {isOpen && (
        <Code block maw={640} tabIndex={0} role="region" aria-label={`Answer at ${at}`}>
          {answer}
        </Code>
      )}
    </Stack>
  );
}
