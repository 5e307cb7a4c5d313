import '@mantine/core/styles/Grid.css';
import { Alert, Button, Grid, Group, Stack, Text } from '@mantine/core';
import { type FormEvent, useState } from 'react';
import { RequestError } from '../api/request.ts';
import type { AcceptedPush, App } from '../api/types.ts';
import { useGet } from '../api/use-get.ts';
import {
  type ComposeErrors,
  type ComposeForm,
  composeBody,
  EMPTY_FORM,
  findInput,
  readRecipients,
} from '../lib/compose-body.ts';
import { sendCommand } from '../lib/curl.ts';
import { indentJson } from '../lib/json-text.ts';
import { readTestDevice } from '../lib/test-device.ts';
import { formatCount } from '../lib/times.ts';
import { usePathId, useUrl } from '../lib/use-url.ts';
import { ApiCommand } from '../parts/api-command.tsx';
import { CodeBlock } from '../parts/code-block.tsx';
import { Failure } from '../parts/failure.tsx';
import { ButtonLink } from '../parts/links.tsx';
import { Loaded } from '../parts/loaded.tsx';
import { Page } from '../parts/page.tsx';
import { Panel } from '../parts/panel.tsx';
import { useSession } from '../shell/session.ts';
import { Audience } from './compose/audience.tsx';
import { ComposeFields } from './compose/compose-fields.tsx';
import { useSend } from './compose/use-send.ts';

const NO_TEST_DEVICE =
  'This app has no test device of yours that is registered. Open a device and choose “Use as my test device”.';

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
        {(found) => <Composer key={found.id} app={found} />}
      </Loaded>
    </Page>
  );
}

function Composer({ app }: { app: App }) {
  const { search } = useUrl<'to'>();
  const { operator } = useSession();
  const [form, setForm] = useState<ComposeForm>({ ...EMPTY_FORM, to: search.to ?? '' });
  const [wasTried, setTried] = useState(false);
  const composed = composeBody(form, Date.now());
  const sending = useSend(app);
  const refused = findRefused(sending.error);
  const submit = (event: FormEvent): void => {
    event.preventDefault();
    setTried(true);
    const recipients = readRecipients(form.to);
    if (composed.ok)
      sending.send({ body: composed.body, recipients, isScheduled: form.schedule !== '' });
  };
  const sendTest = (): void => {
    const token = readTestDevice(operator.id, app.id);
    if (token === undefined) return void sending.sendTest(undefined, NO_TEST_DEVICE);
    const test = composeBody({ ...form, to: token, schedule: '' }, Date.now());
    setTried(!test.ok);
    if (test.ok) sending.sendTest({ body: test.body, token }, NO_TEST_DEVICE);
  };
  const change = (changed: ComposeForm): void => {
    setForm(changed);
    if (sending.error !== null) sending.reset();
  };
  return (
    <Grid>
      <Grid.Col span={{ base: 12, md: 7 }}>
        <Panel title="Push">
          <form onSubmit={submit} noValidate>
            <Stack gap="sm">
              <ComposeFields
                form={form}
                errors={{ ...(!composed.ok && composed.errors), ...refused }}
                wasTried={wasTried || refused !== undefined}
                onChange={change}
              />
              <Audience app={app.id} to={form.to} />
              {sending.error !== null && refused === undefined && <Failure error={sending.error} />}
              {sending.accepted !== undefined && <Accepted push={sending.accepted} />}
              <Group>
                <Button type="submit" loading={sending.isPending}>
                  {form.schedule === '' ? 'Send' : 'Schedule'}
                </Button>
                <Button variant="default" loading={sending.isPending} onClick={sendTest}>
                  Send to my test device
                </Button>
              </Group>
            </Stack>
          </form>
        </Panel>
      </Grid.Col>
      <Grid.Col span={{ base: 12, md: 5 }}>
        <Panel title="The same with the API">
          {composed.ok ? (
            <Preview body={composed.body} />
          ) : (
            <Text fz="sm" c="dimmed">
              The request appears when the push is complete.
            </Text>
          )}
        </Panel>
      </Grid.Col>
    </Grid>
  );
}

/** Returns the error of the API at its input; undefined if it concerns none. */
function findRefused(error: unknown): ComposeErrors | undefined {
  if (!(error instanceof RequestError) || error.parameter === undefined) return undefined;
  const input = findInput(error.parameter);
  return input === undefined ? undefined : { [input]: error.message };
}

function Preview({ body }: { body: string }) {
  return (
    <Stack gap="md">
      <CodeBlock text={indentJson(body)} label="Body of the request" copy="Copy the body" />
      <ApiCommand label="Command that sends the push" command={(api) => sendCommand(api, body)} />
    </Stack>
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
