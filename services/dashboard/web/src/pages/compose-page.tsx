import '@mantine/core/styles/Grid.css';
import { Alert, Button, Grid, Group, Stack, Text, Textarea, TextInput } from '@mantine/core';
import { useMutation } from '@tanstack/react-query';
import { type FormEvent, useState } from 'react';
import { handleError } from '../api/query-client.ts';
import { postText } from '../api/request.ts';
import type { AcceptedPush } from '../api/types.ts';
import { useGet } from '../api/use-get.ts';
import { type ComposeForm, composeBody, EMPTY_FORM } from '../lib/compose-body.ts';
import { sendCommand } from '../lib/curl.ts';
import { formatCount } from '../lib/times.ts';
import { usePathId, useUrl } from '../lib/use-url.ts';
import { ApiCommand } from '../parts/api-command.tsx';
import { Failure } from '../parts/failure.tsx';
import { ButtonLink } from '../parts/links.tsx';
import { Loaded } from '../parts/loaded.tsx';
import { Page } from '../parts/page.tsx';
import { Panel } from '../parts/panel.tsx';

/** Composes a push, sends it as the HTTP API would, and shows the same as a command. */
export function ComposePage() {
  const app = usePathId('app');
  const found = useGet(`/apps/${app}`);
  return (
    <Page
      title="Compose a push"
      description="It is accepted by the same code as a push of a backend."
    >
      <Loaded query={found} height={480}>
        {({ id }) => <Composer key={id} app={id} />}
      </Loaded>
    </Page>
  );
}

function Composer({ app }: { app: string }) {
  const { search } = useUrl<'to'>();
  const [form, setForm] = useState<ComposeForm>({ ...EMPTY_FORM, to: search.to ?? '' });
  const [wasTried, setTried] = useState(false);
  const composed = composeBody(form, Date.now());
  const send = useMutation({
    mutationFn: (body: string) => postText(`/apps/${app}/pushes`, body),
    onError: handleError,
  });
  const submit = (event: FormEvent): void => {
    event.preventDefault();
    setTried(true);
    if (composed.ok) send.mutate(composed.body);
  };
  return (
    <Grid>
      <Grid.Col span={{ base: 12, md: 7 }}>
        <Panel title="Push">
          <form onSubmit={submit} noValidate>
            <Stack gap="sm">
              <Fields
                form={form}
                errors={wasTried && !composed.ok ? composed.errors : {}}
                onChange={setForm}
              />
              {send.isError && <Failure error={send.error} />}
              {send.data !== undefined && <Accepted push={send.data} />}
              <Group>
                <Button type="submit" loading={send.isPending}>
                  {form.schedule === '' ? 'Send' : 'Schedule'}
                </Button>
              </Group>
            </Stack>
          </form>
        </Panel>
      </Grid.Col>
      <Grid.Col span={{ base: 12, md: 5 }}>
        <Panel title="The same with the API">
          {composed.ok ? (
            <ApiCommand
              label="Command that sends the push"
              command={(api) => sendCommand(api, composed.body)}
            />
          ) : (
            <Text fz="sm" c="dimmed">
              The command appears when the push is complete.
            </Text>
          )}
        </Panel>
      </Grid.Col>
    </Grid>
  );
}

interface FieldsProps {
  form: ComposeForm;
  errors: Partial<Record<keyof ComposeForm, string>>;
  onChange: (form: ComposeForm) => void;
}

function Fields({ form, errors, onChange }: FieldsProps) {
  const bind = (name: keyof ComposeForm) => ({
    value: form[name],
    error: errors[name] ?? null,
    onChange: ({ currentTarget }: { currentTarget: { value: string } }) =>
      onChange({ ...form, [name]: currentTarget.value }),
  });
  return (
    <>
      <Textarea
        label="To"
        description="Device tokens and topics such as /topics/news, separated by spaces or lines"
        autosize
        minRows={2}
        maxRows={8}
        spellCheck={false}
        {...bind('to')}
      />
      <Textarea
        label="Payload"
        description="A JSON object"
        autosize
        minRows={5}
        maxRows={20}
        spellCheck={false}
        styles={{ input: { fontFamily: 'var(--mantine-font-family-monospace)' } }}
        {...bind('data')}
      />
      <Group grow align="flex-start">
        <TextInput label="Title" description="Of the shown notification" {...bind('title')} />
        <TextInput label="Text" description="Of the shown notification" {...bind('body')} />
      </Group>
      <Group grow align="flex-start">
        <TextInput label="Collapse key" {...bind('collapseKey')} />
        <TextInput label="Time to live (seconds)" inputMode="numeric" {...bind('timeToLive')} />
        <TextInput label="Send at" type="datetime-local" {...bind('schedule')} />
      </Group>
    </>
  );
}

function Accepted({ push: { id, info } }: { push: AcceptedPush }) {
  const { devices, failed } = info;
  return (
    <Alert color="accent" variant="outline" title="Accepted" role="status">
      <Stack gap="xs" align="flex-start">
        <Text fz="sm">
          {devices === 1
            ? 'One device gets the push.'
            : `${formatCount(devices)} devices get the push.`}
        </Text>
        {failed.length > 0 && (
          <Text fz="sm" className="wrap-anywhere">
            {`Not registered with this app: ${failed.slice(0, 20).join(', ')}${failed.length > 20 ? ' …' : ''}`}
          </Text>
        )}
        <ButtonLink size="xs" variant="default" to="/pushes/$push" params={{ push: id }}>
          See how it is delivered
        </ButtonLink>
      </Stack>
    </Alert>
  );
}
