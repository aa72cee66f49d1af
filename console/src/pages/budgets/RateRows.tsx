// The rates of a price list as rows: a model, its price, and where that holds.
import { ActionIcon, Autocomplete, Button, Select, TextInput } from '@mantine/core'
import { IconX } from '@tabler/icons-react'
import { useTranslation } from 'react-i18next'
import { ANY_MODEL, makeRate, parsePrice, type RateDraft, SHARINGS } from './priceList'

interface RateRowsProps {
  readonly rates: readonly RateDraft[]
  readonly models: readonly string[]
  readonly mechanisms: readonly string[]
  change(rates: RateDraft[]): void
}

export function RateRows({ rates, models, mechanisms, change }: RateRowsProps) {
  const { t } = useTranslation('budgets')
  const set = (key: number, part: Partial<RateDraft>) =>
    change(rates.map((rate) => (rate.key === key ? { ...rate, ...part } : rate)))
  const add = () => change([...rates, makeRate(Math.max(-1, ...rates.map((rate) => rate.key)) + 1)])
  return (
    <div className="grid fields">
      {rates.map((rate, place) => (
        <fieldset key={rate.key} className="row wrap fields-row rate-row">
          <legend className="sr">{t('rateNumber', { number: place + 1 })}</legend>
          <Autocomplete
            className="third"
            label={t('model')}
            description={rate.model === ANY_MODEL ? t('otherModels') : undefined}
            inputWrapperOrder={['label', 'input', 'description', 'error']}
            data={[ANY_MODEL, ...models]}
            filter={({ options }) => options}
            value={rate.model}
            onChange={(model) => set(rate.key, { model })}
          />
          <TextInput
            className="third"
            label={t('price')}
            inputMode="decimal"
            value={rate.price}
            error={rate.price !== '' && parsePrice(rate.price) === null ? t('wrong.price') : undefined}
            onChange={(event) => set(rate.key, { price: event.currentTarget.value })}
          />
          <Autocomplete
            className="third"
            label={t('mechanism')}
            placeholder={t('any')}
            data={[...mechanisms]}
            value={rate.mechanism}
            onChange={(mechanism) => set(rate.key, { mechanism })}
          />
          <Select
            className="third"
            label={t('sharing')}
            placeholder={t('any')}
            clearable
            data={SHARINGS.map((value) => ({ value, label: t(`sharings.${value}`) }))}
            value={rate.sharing || null}
            onChange={(sharing) => set(rate.key, { sharing: sharing ?? '' })}
          />
          <TextInput
            className="hour"
            label={t('fromHour')}
            placeholder="0"
            inputMode="numeric"
            value={rate.fromHour}
            onChange={(event) => set(rate.key, { fromHour: event.currentTarget.value })}
          />
          <TextInput
            className="hour"
            label={t('untilHour')}
            placeholder="24"
            inputMode="numeric"
            value={rate.untilHour}
            onChange={(event) => set(rate.key, { untilHour: event.currentTarget.value })}
          />
          <ActionIcon
            variant="default"
            className="rate-remove"
            disabled={rates.length === 1}
            aria-label={t('removeRate', { number: place + 1 })}
            onClick={() => change(rates.filter((each) => each.key !== rate.key))}
          >
            <IconX size={15} />
          </ActionIcon>
        </fieldset>
      ))}
      <div>
        <Button size="xs" variant="default" onClick={add}>
          {t('addRate')}
        </Button>
      </div>
    </div>
  )
}
