import { Button, Group, NativeSelect, Stack, Textarea, TextInput } from '@mantine/core';
import { IconChevronDown, IconChevronRight } from '@tabler/icons-react';
import { useState } from 'react';
import {
  type ComposeErrors,
  type ComposeForm,
  PROVIDER_FIELDS,
  type ProviderField,
} from '../../lib/compose-body.ts';

interface FieldsProps {
  form: ComposeForm;
  /** Of all inputs, also of those that nobody has filled in yet. */
  errors: ComposeErrors;
  /** Whether the operator has tried to send: all errors are shown. */
  wasTried: boolean;
  onChange: (form: ComposeForm) => void;
}

const PRIORITIES = [
  { value: '', label: 'Default: high, unless nothing is shown' },
  { value: 'high', label: 'High: at once' },
  { value: 'normal', label: 'Normal: saves the battery' },
];

const CODE = { input: { fontFamily: 'var(--mantine-font-family-monospace)' } };

/** Shows the inputs of the composer. */
export function ComposeFields({ form, errors, wasTried, onChange }: FieldsProps) {
  const bind = (name: keyof ComposeForm) => ({
    value: form[name],
    error: (wasTried && errors[name]) || null,
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
        styles={CODE}
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
      <NativeSelect label="Priority" data={PRIORITIES} {...bind('priority')} />
      <ProviderFields form={form} errors={errors} wasTried={wasTried} onChange={onChange} />
    </>
  );
}

const PROVIDER_INPUTS: Readonly<Record<ProviderField, { label: string; parts: string }>> = {
  apns: { label: 'APNs', parts: 'headers, payload' },
  fcm: { label: 'FCM', parts: 'android, apns, notification, data, fcm_options' },
  web_push: { label: 'Web Push', parts: 'headers, payload' },
};

/** Shows the JSON inputs that few pushes need. An input's error opens the section, once it has been left. */
function ProviderFields({ form, errors, wasTried, onChange }: FieldsProps) {
  const [isWanted, setWanted] = useState(false);
  const [wasLeft, setLeft] = useState(false);
  const shown = wasTried || wasLeft ? errors : {};
  const isOpen = isWanted || PROVIDER_FIELDS.some((name) => shown[name] !== undefined);
  const Chevron = isOpen ? IconChevronDown : IconChevronRight;
  return (
    <Stack gap="sm" align="stretch">
      <Group>
        <Button
          variant="subtle"
          size="compact-sm"
          leftSection={<Chevron size={16} aria-hidden />}
          aria-expanded={isOpen}
          onClick={() => setWanted(!isOpen)}
        >
          Fields of the providers
        </Button>
      </Group>
      {isOpen &&
        PROVIDER_FIELDS.map((name) => (
          <Textarea
            key={name}
            label={PROVIDER_INPUTS[name].label}
            description={`A JSON object with ${PROVIDER_INPUTS[name].parts}, merged over what is sent; null removes a field`}
            autosize
            minRows={3}
            maxRows={20}
            spellCheck={false}
            styles={CODE}
            value={form[name]}
            error={shown[name] ?? null}
            onBlur={() => setLeft(true)}
            onChange={({ currentTarget }) => onChange({ ...form, [name]: currentTarget.value })}
          />
        ))}
    </Stack>
  );
}
