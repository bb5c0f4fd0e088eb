#include "call_value.h"

#include <ATen/ops/stack.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <cmath>

#include "error.h"
#include "tensor.h"

namespace sconce {
namespace {

const char* kind_of(const Value& value) {
  constexpr const char* kinds[] = {"null", "a tensor", "a number", "a bigint", "a boolean", "a string", "a list", "an object"};
  return kinds[value.held.index()];
}

[[noreturn]] void refuse(const Value& value, const c10::TypePtr& type, const std::string& where) {
  std::string given = kind_of(value);
  if (const auto* number = std::get_if<double>(&value.held)) given = "the number " + c10::str(*number);
  throw CodedError("tensor_invalid", where + ": expected " + type->annotation_str() + ", received " + given);
}

/** 2^53: a double can hold every integer up to this number. */
constexpr double kMaxWhole = 9007199254740992.0;

bool is_whole(double number) { return std::trunc(number) == number && std::fabs(number) <= kMaxWhole; }

c10::IValue list_to_ivalue(const Value& value, const c10::ListType& type, c10::Device device, const std::string& where) {
  const auto element = type.getElementType();
  c10::impl::GenericList list(element);
  const auto& items = std::get<ValueList>(value.held);
  list.reserve(items.size());
  for (size_t i = 0; i < items.size(); ++i) {
    list.push_back(value_to_ivalue(items[i], element, device, where + "[" + std::to_string(i) + "]"));
  }
  return list;
}

c10::IValue tuple_to_ivalue(const Value& value, const c10::TupleType& type, c10::Device device,
                            const std::string& where) {
  const auto& items = std::get<ValueList>(value.held);
  const auto& types = type.elements();
  if (items.size() != types.size()) {
    throw CodedError("tensor_invalid", where + ": expected " + std::to_string(types.size()) + " elements, received " +
                                           std::to_string(items.size()));
  }
  std::vector<c10::IValue> elements;
  for (size_t i = 0; i < items.size(); ++i) {
    elements.push_back(value_to_ivalue(items[i], types[i], device, where + "[" + std::to_string(i) + "]"));
  }
  return c10::ivalue::Tuple::create(std::move(elements));
}

/** Stacks the tensors of a list along a new first dimension. */
at::Tensor stacked(const ValueList& list, c10::Device device, const std::string& where) {
  std::vector<at::Tensor> rows;
  for (const auto& item : list) {
    const std::string place = where + "[" + std::to_string(rows.size()) + "]";
    const auto* row = std::get_if<at::Tensor>(&item.held);
    if (row == nullptr) refuse(item, c10::TensorType::get(), place);
    rows.push_back(row->to(device));
    if (row->sizes() == rows[0].sizes() && row->scalar_type() == rows[0].scalar_type()) continue;
    throw CodedError("tensor_invalid", place + ": a list for a tensor needs equal shapes and dtypes, received " +
                                           tensor_text(rows[0].scalar_type(), rows[0].sizes()) + " and " +
                                           tensor_text(row->scalar_type(), row->sizes()));
  }
  if (rows.empty()) throw CodedError("tensor_invalid", where + ": a list for a tensor needs at least one tensor");
  return at::stack(rows);
}

Value list_from(c10::ArrayRef<c10::IValue> elements, const std::string& where) {
  ValueList list;
  list.reserve(elements.size());
  for (const auto& element : elements) list.push_back(value_from_ivalue(element, where));
  return {std::move(list)};
}

Value tuple_from(const c10::ivalue::Tuple& tuple, const std::string& where) {
  const auto& elements = tuple.elements();
  const auto names = tuple.type<c10::TupleType>()->names();
  ValueRecord record;
  ValueList list;
  for (size_t i = 0; i < elements.size(); ++i) {
    Value element = value_from_ivalue(elements[i], where);
    if (names) record.emplace_back(std::string(names->at(i)), std::move(element));
    else list.push_back(std::move(element));
  }
  return names ? Value{std::move(record)} : Value{std::move(list)};
}

Value dict_from(const c10::Dict<c10::IValue, c10::IValue>& dict, const std::string& where) {
  ValueRecord record;
  for (const auto& entry : dict) {
    if (!entry.key().isString()) throw CodedError("weights_invalid", where + " gave a dict whose keys are no strings");
    record.emplace_back(entry.key().toStringRef(), value_from_ivalue(entry.value(), where));
  }
  return {std::move(record)};
}

template <typename Visit>
void visit_tensors(Value& value, const Visit& visit) {
  if (auto* tensor = std::get_if<at::Tensor>(&value.held)) {
    visit(*tensor);
  } else if (auto* list = std::get_if<ValueList>(&value.held)) {
    for (auto& element : *list) visit_tensors(element, visit);
  } else if (auto* record = std::get_if<ValueRecord>(&value.held)) {
    for (auto& [name, element] : *record) visit_tensors(element, visit);
  }
}

}  // namespace

c10::IValue value_to_ivalue(const Value& value, const c10::TypePtr& type, c10::Device device, const std::string& where) {
  const auto* tensor = std::get_if<at::Tensor>(&value.held);
  const auto* number = std::get_if<double>(&value.held);
  const auto* whole = std::get_if<int64_t>(&value.held);
  const auto* flag = std::get_if<bool>(&value.held);
  const auto* text = std::get_if<std::string>(&value.held);
  const bool is_list = std::holds_alternative<ValueList>(value.held);
  switch (type->kind()) {
    case c10::TypeKind::TensorType:
      if (tensor) return tensor->to(device);
      if (is_list) return stacked(std::get<ValueList>(value.held), device, where);
      break;
    case c10::TypeKind::IntType:
      if (number && is_whole(*number)) return static_cast<int64_t>(*number);
      if (whole) return *whole;
      break;
    case c10::TypeKind::FloatType:
      if (number) return *number;
      break;
    case c10::TypeKind::NumberType:
      if (number) return is_whole(*number) ? c10::IValue(static_cast<int64_t>(*number)) : c10::IValue(*number);
      if (whole) return *whole;
      break;
    case c10::TypeKind::BoolType:
      if (flag) return *flag;
      break;
    case c10::TypeKind::StringType:
      if (text) return *text;
      break;
    case c10::TypeKind::NoneType:
      if (value.held.index() == 0) return {};
      break;
    case c10::TypeKind::OptionalType:
      if (value.held.index() == 0) return {};
      return value_to_ivalue(value, type->expectRef<c10::OptionalType>().getElementType(), device, where);
    case c10::TypeKind::ListType:
      if (is_list) return list_to_ivalue(value, type->expectRef<c10::ListType>(), device, where);
      break;
    case c10::TypeKind::TupleType:
      if (is_list) return tuple_to_ivalue(value, type->expectRef<c10::TupleType>(), device, where);
      break;
    default: break;
  }
  refuse(value, type, where);
}

Value value_from_tensor(const at::Tensor& tensor, const std::string& where) {
  if (!tensor.defined()) return {};
  require_plain(tensor, where);
  if (!info_of(tensor.scalar_type())) {
    throw CodedError("weights_invalid", where + " gave " + tensor_text(tensor.scalar_type(), tensor.sizes()) +
                                            ", a dtype that sconce lacks");
  }
  return {tensor.resolve_neg().contiguous()};
}

void own_tensors(Value& result) {
  visit_tensors(result, [](at::Tensor& tensor) {
    if (!owns_memory(tensor)) tensor = tensor.clone(at::MemoryFormat::Contiguous);
  });
}

void use_tensors_on(Value& value, c10::Stream stream) {
  visit_tensors(value, [&](at::Tensor& tensor) {
    if (tensor.is_cpu()) return;
    c10::impl::VirtualGuardImpl(stream.device_type()).recordDataPtrOnStream(tensor.storage().data_ptr(), stream);
  });
}

Value value_from_ivalue(const c10::IValue& value, const std::string& where) {
  if (value.isNone()) return {};
  if (value.isTensor()) return value_from_tensor(value.toTensor(), where);
  if (value.isBool()) return {value.toBool()};
  if (value.isInt()) {
    const int64_t whole = value.toInt();
    constexpr auto most = static_cast<int64_t>(kMaxWhole);
    if (whole >= -most && whole <= most) return {static_cast<double>(whole)};
    return {whole};
  }
  if (value.isDouble()) return {value.toDouble()};
  if (value.isString()) return {value.toStringRef()};
  if (value.isTuple()) return tuple_from(value.toTupleRef(), where);
  if (value.isList()) return list_from(value.toListRef(), where);
  if (value.isGenericDict()) return dict_from(value.toGenericDict(), where);
  throw CodedError("weights_invalid", where + " gave " + value.tagKind() + ", which JavaScript has no form for");
}

}  // namespace sconce
