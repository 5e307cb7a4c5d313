import { Button, Checkbox, Stack, TextInput } from '@mantine/core';
import { type FormEvent, useState } from 'react';
import { change } from '../../api/request.ts';
import type { Webhook } from '../../api/types.ts';
import { useChange } from '../../api/use-change.ts';
import { Dialog } from '../../parts/dialog.tsx';

interface WebhookFormProps {
  title: string;
  app: string;
  eventNames: readonly string[];
  /** The webhook to edit; a webhook is added if absent. */
  webhook?: Webhook;
  onClose: () => void;
  /** Is given a new webhook's secret. */
  onSecret?: (secret: string) => void;
}

/** Adds or edits a webhook. The server checks the address, and where it leads at each request. */
export function WebhookForm(props: WebhookFormProps) {
  const { title, app, eventNames, webhook, onClose, onSecret } = props;
  const [url, setUrl] = useState('');
  const [isAll, setAll] = useState(
    webhook === undefined || webhook.events.length === eventNames.length,
  );
  const [chosen, setChosen] = useState(webhook?.events ?? []);
  const list = `/apps/${app}/webhooks` as const;
  const events = isAll ? eventNames : chosen;
  const save = useChange({
    run: async () => {
      if (webhook === undefined) return (await change('POST', list, { url, events })).secret;
      await change('PATCH', `${list}/${webhook.id}`, { ...(url !== '' && { url }), events });
      return undefined;
    },
    outdated: [[list]],
    onDone: (secret) => {
      onClose();
      if (secret !== undefined) onSecret?.(secret);
    },
  });
  const submit = (event: FormEvent): void => {
    event.preventDefault();
    save.mutate();
  };
  return (
    <Dialog opened onClose={onClose} title={title}>
      <form onSubmit={submit}>
        <Stack gap="sm">
          <Address webhook={webhook} url={url} onChange={setUrl} />
          <Checkbox
            label="All events"
            checked={isAll}
            onChange={({ currentTarget }) => setAll(currentTarget.checked)}
          />
          {!isAll && (
            <Checkbox.Group label="Events" value={chosen} onChange={setChosen}>
              <Stack gap={6} mt={6}>
                {eventNames.map((name) => (
                  <Checkbox key={name} value={name} label={name} />
                ))}
              </Stack>
            </Checkbox.Group>
          )}
          <Button type="submit" loading={save.isPending} disabled={events.length === 0}>
            {webhook === undefined ? 'Add' : 'Save'}
          </Button>
        </Stack>
      </form>
    </Dialog>
  );
}

interface AddressProps {
  webhook: Webhook | undefined;
  url: string;
  onChange: (url: string) => void;
}

/** The address of a new webhook, or a new one. */
function Address({ webhook, url, onChange }: AddressProps) {
  const isNew = webhook === undefined;
  return (
    <TextInput
      label={isNew ? 'Address' : 'New address'}
      description={
        isNew
          ? 'https, with a public address; private ones need WEBHOOK_HOSTS'
          : `Leave it empty to keep the present one, at ${webhook.host}`
      }
      placeholder="https://backend.example.com/carillon"
      required={isNew}
      withAsterisk={false}
      spellCheck={false}
      autoComplete="off"
      data-autofocus
      value={url}
      onChange={({ currentTarget }) => onChange(currentTarget.value)}
    />
  );
}
