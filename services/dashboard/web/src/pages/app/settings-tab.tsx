import '@mantine/core/styles/NumberInput.css';
import {
  Button,
  Checkbox,
  Group,
  NativeSelect,
  NumberInput,
  Paper,
  Stack,
  Text,
  Textarea,
  TextInput,
} from '@mantine/core';
import { type FormEvent, useState } from 'react';
import { change } from '../../api/request.ts';
import type { App } from '../../api/types.ts';
import { useChange } from '../../api/use-change.ts';
import { ConfirmButton } from '../../parts/confirm-button.tsx';
import { useMay } from '../../shell/session.ts';

/** Settings as the inputs hold them. */
interface SettingsForm {
  payloadLimit: number;
  dataString: boolean;
  registration: string;
  registrationsPerHour: string;
  /** `off`, `first`, or seconds. */
  fcmFallback: string;
  fcmNotification: boolean;
  bundleIds: string;
  webHosts: string;
  /** Empty: off. */
  pruneAfterDays: string;
}

function toForm(app: App): SettingsForm {
  const { registrationsPerHour, fcmFallback, bundleIds, webHosts, pruneAfterDays } = app;
  return {
    payloadLimit: app.payloadLimit,
    dataString: app.dataString,
    registration: app.registration,
    registrationsPerHour: registrationsPerHour === null ? '' : String(registrationsPerHour),
    fcmFallback: String(fcmFallback),
    fcmNotification: app.fcmNotification,
    bundleIds: bundleIds.join('\n'),
    webHosts: webHosts.join('\n'),
    pruneAfterDays: pruneAfterDays === null ? '' : String(pruneAfterDays),
  };
}

/** Makes the request's body of what is changed: a default stays one. The server checks each value. */
function toBody(form: SettingsForm, before: SettingsForm): Record<string, unknown> {
  const all = Object.entries(toValues(form));
  return Object.fromEntries(
    all.filter(([name]) => form[name as keyof SettingsForm] !== before[name as keyof SettingsForm]),
  );
}

function toValues(form: SettingsForm): Record<keyof SettingsForm, unknown> {
  const { registrationsPerHour: perHour, fcmFallback, pruneAfterDays: days } = form;
  return {
    payloadLimit: form.payloadLimit,
    dataString: form.dataString,
    registration: form.registration,
    registrationsPerHour: perHour === '' ? null : Number(perHour),
    fcmFallback: toFcmUse(fcmFallback),
    fcmNotification: form.fcmNotification,
    bundleIds: splitLines(form.bundleIds),
    webHosts: splitLines(form.webHosts),
    pruneAfterDays: days.trim() === '' ? null : Number(days),
  };
}

/** An empty text becomes no number, which the server refuses. */
function toFcmUse(text: string): 'off' | 'first' | number {
  if (text === 'off' || text === 'first') return text;
  return text.trim() === '' ? Number.NaN : Number(text);
}

function splitLines(text: string): string[] {
  return text.split(/[\s,]+/).filter((line) => line !== '');
}

/** Shows and changes an app's settings. */
export function SettingsTab({ app }: { app: App }) {
  const [form, setForm] = useState(() => toForm(app));
  const mayChange = useMay('admin');
  const save = useChange({
    run: () => change('PUT', `/apps/${app.id}`, toBody(form, toForm(app))),
    outdated: [[`/apps/${app.id}`], ['/apps']],
    done: 'The settings are stored.',
  });
  const submit = (event: FormEvent): void => {
    event.preventDefault();
    save.mutate();
  };
  return (
    <Paper withBorder p="md" maw={560}>
      <Pause app={app} />
      <form onSubmit={submit}>
        <fieldset disabled={!mayChange} style={{ border: 0, margin: 0, padding: 0 }}>
          <Stack gap="sm">
            <Fields form={form} onChange={setForm} />
            {mayChange && (
              <Button type="submit" loading={save.isPending}>
                Store the settings
              </Button>
            )}
          </Stack>
        </fieldset>
      </form>
    </Paper>
  );
}

/** Shows whether the app's deliveries wait, and pauses or resumes them. */
function Pause({ app: { id, name, paused } }: { app: App }) {
  const mayChange = useMay('admin');
  const pause = useChange({
    run: () => change('PUT', `/apps/${id}`, { paused: !paused }),
    outdated: [[`/apps/${id}`], ['/apps'], ['/overview', {}]],
    done: paused ? 'Deliveries go on within seconds.' : 'Deliveries stop within seconds.',
  });
  return (
    <Group justify="space-between" mb="md">
      <Text fz="sm">{paused ? 'Paused: deliveries wait.' : 'Deliveries are not paused.'}</Text>
      {mayChange && (
        <ConfirmButton
          label={paused ? 'Resume deliveries' : 'Pause deliveries'}
          isPending={pause.isPending}
          confirmation={{
            title: paused
              ? `Resume the deliveries of ${name}?`
              : `Pause the deliveries of ${name}?`,
            text: paused
              ? 'The pushes that wait are delivered, but for those that have expired.'
              : 'Pushes are accepted and wait; they expire as always. Devices still get what their inbox holds.',
            action: paused ? 'Resume' : 'Pause',
            isDangerous: !paused,
            onConfirm: () => pause.mutate(),
          }}
        />
      )}
    </Group>
  );
}

interface FieldsProps {
  form: SettingsForm;
  onChange: (form: SettingsForm) => void;
}

function Fields({ form, onChange }: FieldsProps) {
  const bind = (name: keyof SettingsForm) => ({
    value: String(form[name]),
    onChange: ({ currentTarget }: { currentTarget: { value: string } }) =>
      onChange({ ...form, [name]: currentTarget.value }),
  });
  return (
    <>
      <NativeSelect
        label="Registration of devices"
        description="Closed: no new device can register; existing ones keep working."
        data={[
          { value: 'open', label: 'Open' },
          { value: 'closed', label: 'Closed' },
        ]}
        {...bind('registration')}
      />
      <TextInput
        label="Registrations per hour"
        description="Empty: unlimited"
        inputMode="numeric"
        {...bind('registrationsPerHour')}
      />
      <TextInput
        label="Delete devices not seen for (days)"
        description="7 to 3,650; empty: never. Seen means registered, connected, or a push accepted by its provider."
        inputMode="numeric"
        {...bind('pruneAfterDays')}
      />
      <NumberInput
        label="Greatest payload (characters)"
        min={1}
        max={1_000_000}
        allowDecimal={false}
        thousandSeparator=" "
        hideControls
        value={form.payloadLimit}
        onChange={(value) => onChange({ ...form, payloadLimit: Number(value) })}
      />
      <FcmFields form={form} onChange={onChange} />
      <Textarea
        label="Bundle ids"
        description="iOS apps may register with these instead of the app’s id, one a line"
        autosize
        minRows={2}
        {...bind('bundleIds')}
      />
      <Textarea
        label="Web hosts"
        description="Sites may register with these instead of the app’s id, one a line"
        autosize
        minRows={2}
        {...bind('webHosts')}
      />
      <Checkbox
        label="Accept a payload that is a text instead of an object"
        checked={form.dataString}
        onChange={({ currentTarget }) => onChange({ ...form, dataString: currentTarget.checked })}
      />
    </>
  );
}

const DEFAULT_FALLBACK_SECONDS = '30';

/** Shows whether Android devices get pushes over FCM: phones that never connect, and the others as a fallback. */
function FcmFields({ form, onChange }: FieldsProps) {
  const { fcmFallback, fcmNotification } = form;
  const use = fcmFallback === 'off' || fcmFallback === 'first' ? fcmFallback : 'after';
  const setUse = (next: string) =>
    onChange({ ...form, fcmFallback: next === 'after' ? DEFAULT_FALLBACK_SECONDS : next });
  return (
    <>
      <NativeSelect
        label="FCM for Android"
        description="Phones that never connect over MQTT get their pushes over FCM, unless it is off."
        data={[
          { value: 'off', label: 'Off' },
          { value: 'after', label: 'Fallback after some seconds without a receipt' },
          { value: 'first', label: 'First, for each device that is not connected' },
        ]}
        value={use}
        onChange={({ currentTarget }) => setUse(currentTarget.value)}
      />
      {use === 'after' && (
        <TextInput
          label="Fallback after (seconds)"
          inputMode="numeric"
          value={fcmFallback}
          onChange={({ currentTarget }) => onChange({ ...form, fcmFallback: currentTarget.value })}
        />
      )}
      <Checkbox
        label="Show title and message of the payload as a notification over FCM"
        checked={fcmNotification}
        onChange={({ currentTarget }) =>
          onChange({ ...form, fcmNotification: currentTarget.checked })
        }
      />
    </>
  );
}
