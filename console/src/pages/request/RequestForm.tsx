import { NumberInput, SegmentedControl, Select, Slider, Switch, Textarea, TextInput } from '@mantine/core'
import { useQuery } from '@tanstack/react-query'
import { useTranslation } from 'react-i18next'
import { api } from '../../api/client'
import { Panel } from '../../ui/Page'
import { type Form, PRIORITIES, SHARINGS, type Sharing, TEMPLATES } from './form'

const COMPUTE_MARKS = [0.25, 0.5, 0.75, 1].map((value) => ({ value, label: value.toFixed(2) }))

interface FieldsProps {
  form: Form
  change: (part: Partial<Form>) => void
  errors: ReadonlyMap<keyof Form, string>
  /** False where the server names the job. */
  hasName?: boolean
}

interface Props extends FieldsProps {
  template: string
  choose: (template: string) => void
}

const toNumber = (value: number | string): number | null => (value === '' ? null : Number(value))

/** The form of a request; each field shows the refusal that concerns it. */
export function RequestForm({ form, change, errors, template, choose }: Props) {
  const { t } = useTranslation('request')
  return (
    <Panel>
      <fieldset className="chips">
        <legend className="sr">{t('template')}</legend>
        {Object.keys(TEMPLATES).map((name) => (
          <button
            key={name}
            type="button"
            className="chip"
            aria-pressed={name === template}
            onClick={() => choose(name)}
          >
            {t(`template.${name}`)}
          </button>
        ))}
      </fieldset>
      <RequestFields form={form} change={change} errors={errors} />
    </Panel>
  )
}

/** The fields of one job. */
export function RequestFields({ form, change, errors, hasName = true }: FieldsProps) {
  const { t } = useTranslation('request')
  const models = useQuery({
    queryKey: ['capacity'],
    queryFn: async () => (await api.GET('/api/v1/capacity')).data?.models ?? [],
  })
  const names = (models.data ?? []).map((model) => model.model)
  const priorities = [...PRIORITIES.values()]
  if (!priorities.includes(form.priority)) priorities.push(form.priority)
  return (
    <div className="grid fields">
      <Textarea
        label={t('command')}
        autosize
        minRows={1}
        value={form.command}
        onChange={(event) => change({ command: event.currentTarget.value })}
        error={errors.get('command')}
        classNames={{ input: 'mono' }}
        spellCheck={false}
      />
      <div>
        <NumberInput
          label={t('gpu')}
          description={t('gpuHint')}
          min={0.01}
          max={1}
          step={0.05}
          decimalScale={3}
          value={form.gpu}
          onChange={(value) => change({ gpu: toNumber(value) ?? 0 })}
          error={errors.get('gpu')}
        />
        <Slider
          thumbLabel={t('gpu')}
          min={0.05}
          max={1}
          step={0.05}
          value={form.gpu}
          onChange={(value) => change({ gpu: Math.round(value * 100) / 100 })}
          label={null}
          marks={COMPUTE_MARKS}
          className="scale"
        />
      </div>
      <NumberInput
        label={t('gib')}
        description={t('gibHint')}
        min={0.125}
        step={1}
        decimalScale={3}
        value={form.gib ?? ''}
        onChange={(value) => change({ gib: toNumber(value) })}
        error={errors.get('gib')}
      />
      <div className="row wrap fields-row">
        <Select
          className="third"
          label={t('model')}
          data={[{ value: '', label: t('anyModel') }, ...names]}
          value={form.model}
          onChange={(value) => change({ model: value ?? '' })}
          error={errors.get('model')}
          allowDeselect={false}
        />
        <NumberInput
          className="third"
          label={t('count')}
          min={1}
          value={form.count}
          onChange={(value) => change({ count: toNumber(value) ?? 1 })}
          error={errors.get('count')}
        />
        <NumberInput
          className="third"
          label={t('hours')}
          placeholder={t('noLimit')}
          min={0.01}
          step={1}
          decimalScale={2}
          value={form.hours ?? ''}
          onChange={(value) => change({ hours: toNumber(value) })}
          error={errors.get('hours')}
        />
      </div>
      <div>
        <span className="field-label">{t('sharing')}</span>
        <SegmentedControl
          fullWidth
          aria-label={t('sharing')}
          data={SHARINGS.map((value) => ({ value, label: t(`sharing.${value}`) }))}
          value={form.sharing}
          onChange={(value) => change({ sharing: value as Sharing })}
        />
        <div className="small sub">{t(`sharingHint.${form.sharing}`)}</div>
      </div>
      <div className="row wrap fields-row">
        {hasName && (
          <TextInput
            className="third"
            label={t('name')}
            value={form.name}
            onChange={(event) => change({ name: event.currentTarget.value })}
            error={errors.get('name')}
          />
        )}
        <TextInput
          className="third"
          label={t('project')}
          placeholder="default"
          value={form.project}
          onChange={(event) => change({ project: event.currentTarget.value })}
          error={errors.get('project')}
        />
        <Select
          className="third"
          label={t('priority')}
          data={priorities.map((value) => ({ value, label: t(`priority.${value}`, { defaultValue: value }) }))}
          value={form.priority}
          onChange={(value) => change({ priority: value ?? 'normal' })}
          error={errors.get('priority')}
          allowDeselect={false}
        />
      </div>
      <Switch
        label={t('preemptible')}
        checked={form.preemptible}
        onChange={(event) => change({ preemptible: event.currentTarget.checked })}
      />
      <details>
        <summary className="small sub">{t('surroundings')}</summary>
        <div className="grid fields">
          <TextInput
            label={t('directory')}
            value={form.directory}
            onChange={(event) => change({ directory: event.currentTarget.value })}
            error={errors.get('directory')}
            classNames={{ input: 'mono' }}
          />
          <Textarea
            label={t('environment')}
            description={t('environmentHint')}
            autosize
            minRows={2}
            value={form.environment}
            onChange={(event) => change({ environment: event.currentTarget.value })}
            error={errors.get('environment')}
            classNames={{ input: 'mono' }}
            spellCheck={false}
          />
        </div>
      </details>
    </div>
  )
}
