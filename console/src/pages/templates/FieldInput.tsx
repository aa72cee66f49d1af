import { Select, Switch, Textarea, TextInput } from '@mantine/core'
import { useTranslation } from 'react-i18next'
import { chooseWords, type NamedField } from './fields'

interface Props {
  field: NamedField
  /** What the field takes, in the server's words. */
  takes: string
  value: string
  error: string | undefined
  change: (value: string) => void
}

/** One field of the form, by its type. Bounds are the server's: it says at the field what is wrong. */
export function FieldInput({ field, takes, value, error, change }: Props) {
  const { t, i18n } = useTranslation('templates')
  const title = chooseWords(field.title, i18n.language)
  const label = field.unit ? t('withUnit', { title, unit: field.unit }) : title
  const more = field.description ? chooseWords(field.description, i18n.language) : takes
  const common = { label, description: more, error, required: field.required && field.default == null }
  if (field.type === 'boolean') {
    return (
      <Switch
        label={label}
        description={field.description ? more : undefined}
        error={error}
        checked={value === 'true'}
        onChange={(event) => change(String(event.currentTarget.checked))}
      />
    )
  }
  if (field.enum) {
    return (
      <Select
        {...common}
        data={field.enum.map(String)}
        value={value || null}
        clearable={!field.required}
        onChange={(chosen) => change(chosen ?? '')}
      />
    )
  }
  if (field.type === 'array') {
    return (
      <Textarea
        {...common}
        description={t('oneInALine', { more })}
        autosize
        minRows={1}
        value={value}
        onChange={(event) => change(event.currentTarget.value)}
        classNames={{ input: 'mono' }}
        spellCheck={false}
      />
    )
  }
  const isNumber = field.type === 'number' || field.type === 'integer'
  return (
    <TextInput
      {...common}
      inputMode={isNumber ? 'decimal' : 'text'}
      value={value}
      onChange={(event) => change(event.currentTarget.value)}
      spellCheck={false}
    />
  )
}
